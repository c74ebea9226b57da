"""The operations with their common prices, opened and closed for all accounts."""

from collections.abc import Mapping

from starlette.responses import Response

from tollway.contract.operation import Operation
from tollway.ledger.permissions import (
    PRICE_MAX,
    OperationState,
    check_price,
    common_price,
    operation_states,
    set_closed,
    set_price,
)
from tollway.operations.catalogue import BY_NAME, OPERATIONS
from tollway.web.area import Context
from tollway.web.blocks import Cell, Empty, Field, Form, Table
from tollway.web.page_errors import PageError
from tollway.web.wording import amount, sentences

PATH = "/operator/prices"


async def show_prices(context: Context) -> Response:
    say = context.say
    states = await operation_states(context.database)
    rows = [_row(context, operation, states) for operation in OPERATIONS]
    columns = [*map(say, sentences("Operation", "State", "Price", "Address"))]
    choices = [(each.name, say(each.title)) for each in OPERATIONS]
    price = Form(
        f"{PATH}/price",
        say("Set price"),
        [
            Field("operation", say("Operation"), "select", choices=choices),
            Field("price", say("Price"), "number", is_required=True, least=0),
        ],
        title=say("Set a common price"),
        note=say("For all accounts that have no price of their own, from the next call on."),
        is_line=True,
    )
    state = Form(
        f"{PATH}/state",
        say("Save"),
        [
            Field("operation", say("Operation"), "select", choices=choices),
            Field(
                "state",
                say("State"),
                "select",
                choices=[("open", say("open")), ("closed", say("closed"))],
            ),
        ],
        title=say("Open or close an operation"),
        is_line=True,
    )
    return context.page(say("Prices"), [Table(columns, rows, Empty("")), price, state])


def _row(
    context: Context, operation: Operation, states: Mapping[str, OperationState]
) -> list[Cell]:
    say, state = context.say, states.get(operation.name)
    is_closed = state is not None and state.is_closed
    return [
        Cell(say(operation.title)),
        Cell(say("closed") if is_closed else say("open"), tone="bad" if is_closed else "good"),
        Cell(amount(say, operation.balance_unit, common_price(operation, states)), "number"),
        Cell(f"{operation.method} {operation.path}", "mono"),
    ]


def _chosen(context: Context) -> Operation:
    operation = BY_NAME.get(context.form.get("operation", ""))
    if operation is None:
        raise PageError(400, "There is no such operation", "Choose one of the list.")
    return operation


async def price_act(context: Context) -> Response:
    say, operation = context.say, _chosen(context)
    price = context.whole_number("price", say("Price"), PRICE_MAX)
    check_price(price)
    before = common_price(operation, await operation_states(context.database))
    unit = operation.balance_unit
    if price != before:
        context.confirm(
            say(
                "{operation} costs {before}. After this it costs {after}, for all accounts that "
                "have no price of their own.",
                operation=say(operation.title),
                before=amount(say, unit, before),
                after=amount(say, unit, price),
            ),
            say("Set price"),
            is_exact=True,
        )
    await set_price(context.database, operation.name, price, context.runtime)
    return context.go(PATH)


async def state_act(context: Context) -> Response:
    say, operation = context.say, _chosen(context)
    is_closed = context.form.get("state") == "closed"
    if is_closed:
        title = say(operation.title)
        context.confirm(
            say("Close {operation} for all accounts? Calls answer 203.", operation=title),
            say("Save"),
        )
    await set_closed(context.database, operation.name, is_closed=is_closed, runtime=context.runtime)
    return context.go(PATH)
