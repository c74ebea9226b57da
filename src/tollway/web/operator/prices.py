"""The operations: their common prices, and opening and closing them for all accounts; and, on the
page of an account, what it may call, at which price and rate."""

from collections.abc import AsyncIterator, Mapping

from starlette.responses import Response

from tollway.contract.operation import Operation
from tollway.ledger.accounts import Account
from tollway.ledger.permissions import (
    PRICE_MAX,
    RATE_MAX,
    OperationState,
    Permission,
    add_permission,
    check_price,
    check_rate,
    common_price,
    list_permissions,
    operation_states,
    revoke_permission,
    set_closed,
    set_price,
)
from tollway.operations.catalogue import BY_NAME, OPERATIONS
from tollway.web.area import Context
from tollway.web.blocks import Block, Cell, Field, Form, Table
from tollway.web.operator.tables import known_account
from tollway.web.page_errors import PageError
from tollway.web.wording import Say, amount, grouped, titles

PATH = "/operator/prices"
ACCOUNT = "/operator/account"


async def show_prices(context: Context) -> Response:
    say = context.say
    states = await operation_states(context.database)
    rows = [_row(context, operation, states) for operation in OPERATIONS]
    columns = titles(say, "Operation", "State", "Price", "Address")
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
    return context.page(say("Prices"), [Table(columns, rows), price, state])


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


def _own_or_common(say: Say, own: int | None, common: int, unit: str = "") -> Cell:
    """The account's own value, or the common one; a price has a unit."""
    value = common if own is None else own
    shown = amount(say, unit, value) if unit else grouped(value)
    if own is not None:
        return Cell(shown, "number")
    return Cell(say("{value} (common)", value=shown), "number muted")


def _permission_row(
    context: Context, operation: Operation, permission: Permission | None, price: int
) -> list[Cell]:
    say, title = context.say, Cell(context.say(operation.title))
    if permission is None:
        return [title, Cell(say("not enabled"), tone="bad"), Cell(""), Cell("")]
    return [
        title,
        Cell(say("may call"), tone="good"),
        _own_or_common(say, permission.price, price, operation.balance_unit),
        _own_or_common(say, permission.rate_limit, context.services.settings.rate_limit),
    ]


async def permission_blocks(context: Context, account: Account) -> list[Block]:
    say = context.say
    held = {each.operation: each for each in await list_permissions(context.database, account.id)}
    states = await operation_states(context.database)
    table = Table(
        titles(say, "Operation", "State", "Price", "Calls a second"),
        [
            _permission_row(context, each, held.get(each.name), common_price(each, states))
            for each in OPERATIONS
        ],
        title=say("Operations"),
    )
    choices = [("*", say("all operations"))] + [(each.name, say(each.title)) for each in OPERATIONS]
    form = Form(
        f"{ACCOUNT}/permission",
        say("Save"),
        [
            Field("operation", say("Operation"), "select", "*", choices),
            Field(
                "state",
                say("State"),
                "select",
                "may",
                [("may", say("may call")), ("not", say("not enabled"))],
            ),
            Field(
                "price",
                say("Price in credits or calls"),
                "number",
                placeholder=say("common"),
                least=0,
            ),
            Field("rate", say("Calls a second"), "number", placeholder=say("common"), least=1),
        ],
        hidden={"account": account.id},
        title=say("Enable operations, set prices and rates"),
        is_line=True,
    )
    return [table, form]


def _wanted(context: Context) -> tuple[list[str], Permission | None]:
    """The operations in the form, and the permission to give for each; None to take it away."""
    say, wanted = context.say, context.form.get("operation", "")
    names = [each.name for each in OPERATIONS] if wanted == "*" else [wanted]
    if not set(names) <= BY_NAME.keys():
        raise PageError(400, "There is no such operation", "Choose one of the list.")
    if context.form.get("state") != "may":
        return names, None
    price = context.optional_number("price", say("Price"), PRICE_MAX)
    rate = context.optional_number("rate", say("Calls a second"), RATE_MAX)
    check_price(price)
    check_rate(rate)
    return names, Permission(wanted, price, rate)


def _terms(
    context: Context,
    operation: Operation,
    held: Permission | None,
    states: Mapping[str, OperationState],
) -> str:
    """An account's permission for an operation, in a few words."""
    say = context.say
    if held is None:
        return say("not enabled")
    common = common_price(operation, states)
    return say(
        "{price}, calls a second: {rate}",
        price=_own_or_common(say, held.price, common, operation.balance_unit).text,
        rate=_own_or_common(say, held.rate_limit, context.services.settings.rate_limit).text,
    )


async def _changes(
    context: Context, held: Mapping[str, Permission], after: Mapping[str, Permission | None]
) -> AsyncIterator[str]:
    states = await operation_states(context.database)
    for name, permission in after.items():
        if held.get(name) != permission:
            operation = BY_NAME[name]
            yield context.say(
                "{operation}: {before} → {after}",
                operation=context.say(operation.title),
                before=_terms(context, operation, held.get(name), states),
                after=_terms(context, operation, permission, states),
            )


async def permission_act(context: Context) -> Response:
    say, account = context.say, await known_account(context, context.form.get("account", ""))
    names, given = _wanted(context)
    database = context.database
    held = {each.operation: each for each in await list_permissions(database, account.id)}
    after = {
        name: given and Permission(name, given.price, given.rate_limit)
        for name in names
        if given is not None or name in held
    }
    changes = [line async for line in _changes(context, held, after)]
    is_replaced = any(held.get(name, after[name]) != after[name] for name in after)
    # The operation may have been disabled since the question: ask before enabling it again.
    if is_replaced or (changes and "sure" in context.form):
        context.confirm(
            say(
                "This changes what {account} has:\n{changes}",
                account=account.name,
                changes="\n".join(changes),
            ),
            say("Save"),
            is_exact=True,
        )
    for name, permission in after.items():
        if permission is None:
            await revoke_permission(database, account.id, name, context.runtime)
        else:
            await add_permission(database, account.id, permission, context.runtime)
    return context.go(ACCOUNT, id=account.id, said="permission")
