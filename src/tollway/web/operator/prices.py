"""The operations: their list prices, and opening and closing them for all accounts."""

from collections.abc import Mapping

from starlette.responses import Response

from tollway.contract.operation import Operation
from tollway.ledger.permissions import (
    PRICE_MAX,
    OperationState,
    check_price,
    list_price,
    operation_states,
    set_closed,
    set_price,
)
from tollway.operations.catalogue import BY_NAME, OPERATIONS
from tollway.web.area import Context, address
from tollway.web.blocks import Cell, Facts, Field, Form, Link, Table
from tollway.web.page_errors import PageError
from tollway.web.wording import amount, sentence, titles

PATH = "/operator/prices"
ONE = f"{PATH}/operation"
_SAID = {
    "price": sentence("Done. The price holds from the next call on."),
    "state": sentence("Done. It acts on the next call."),
}


async def show_prices(context: Context) -> Response:
    say = context.say
    states = await operation_states(context.database)
    table = Table(
        [*titles(say, "Operation", "State", "Price", "Address"), ""],
        [
            [
                Cell(say(each.title)),
                *_state_and_price(context, each, states),
                Cell(f"{each.method} {each.path}", "mono"),
                Cell(say("Change"), "time", address(ONE, operation=each.name), of=say(each.title)),
            ]
            for each in OPERATIONS
        ],
        note=say("An account can have a price of its own: it is on the account's page."),
    )
    return context.page(say("Prices"), [*context.reported(_SAID), table])


def _state_and_price(
    context: Context, operation: Operation, states: Mapping[str, OperationState]
) -> list[Cell]:
    say, state = context.say, states.get(operation.name)
    is_closed = state is not None and state.is_closed
    return [
        Cell(say("closed") if is_closed else say("open"), tone="bad" if is_closed else "good"),
        context.amount(operation.balance_unit, list_price(operation, states)),
    ]


async def show_operation(context: Context) -> Response:
    """One operation, with what can be changed about it."""
    say, operation = context.say, chosen_operation(context)
    states = await operation_states(context.database)
    state, price = _state_and_price(context, operation, states)
    facts = [
        (say("State"), state),
        (say("Price"), price),
        (say("Address"), Cell(f"{operation.method} {operation.path}", "mono")),
    ]
    named = {"operation": operation.name}
    label = (
        say("Price in credits") if operation.balance_unit == "credits" else say("Price in calls")
    )
    now = str(list_price(operation, states))
    pricing = Form(
        f"{PATH}/price",
        say("Set price"),
        [Field("price", label, "number", now, is_required=True, least=0)],
        hidden=named,
        title=say("Set the list price"),
        note=say("For all accounts that have no price of their own, from the next call on."),
        is_line=True,
    )
    is_closed = state.tone == "bad"
    closing = Form(
        f"{PATH}/state",
        say("Open") if is_closed else say("Close"),
        hidden={**named, "state": "open" if is_closed else "closed"},
        title=say("Open the operation") if is_closed else say("Close the operation"),
        note=say("For all accounts: while it is closed, its calls answer 203."),
        tone="act" if is_closed else "warn",
    )
    return context.page(
        say(operation.title),
        [Facts(facts, say("Details")), pricing, closing],
        crumbs=[Link(say("Prices"), PATH)],
    )


def chosen_operation(context: Context) -> Operation:
    operation = BY_NAME.get(context.form.get("operation", ""))
    if operation is None:
        raise PageError(400, "There is no such operation", "Choose one of the list.")
    return operation


async def price_act(context: Context) -> Response:
    say, operation = context.say, chosen_operation(context)
    price = context.whole_number("price", say("Price"), PRICE_MAX)
    check_price(price)
    before = list_price(operation, await operation_states(context.database))
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
    return context.go(PATH, said="price")


async def state_act(context: Context) -> Response:
    say, operation = context.say, chosen_operation(context)
    is_closed = context.form.get("state") == "closed"
    if is_closed:
        title = say(operation.title)
        context.confirm(
            say("Close {operation} for all accounts? Calls answer 203.", operation=title),
            say("Save"),
        )
    await set_closed(context.database, operation.name, is_closed=is_closed, runtime=context.runtime)
    return context.go(PATH, said="state")
