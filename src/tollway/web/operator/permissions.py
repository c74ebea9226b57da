"""What an account may call, at which price and rate: one operation at a time, or all at once."""

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
    list_permissions,
    list_price,
    operation_states,
    revoke_permission,
)
from tollway.operations.catalogue import BY_NAME, OPERATIONS
from tollway.web.area import Context, address
from tollway.web.blocks import Block, Cell, Facts, Field, Form, Table
from tollway.web.operator.account_tabs import (
    ONE,
    PERMISSIONS,
    account_crumbs,
    find_wanted,
    tab_page,
)
from tollway.web.operator.prices import chosen_operation
from tollway.web.page_errors import PageError
from tollway.web.wording import Say, amount, grouped, titles

PERMISSION = f"{ONE}/permission"
_ALL = "*"


def _price_cell(say: Say, own: int | None, listed: int, unit: str) -> Cell:
    """The account's own price, or the list price."""
    if own is not None:
        return Cell(amount(say, unit, own), "number")
    shown = amount(say, unit, listed)
    return Cell(say("{value} (list price)", value=shown), "number muted")


def _rate_cell(say: Say, own: int | None, default: int) -> Cell:
    """The account's own rate, or the one of the settings."""
    if own is not None:
        return Cell(grouped(own), "number")
    return Cell(say("{value} (default)", value=grouped(default)), "number muted")


def _permission_row(
    context: Context, operation: Operation, permission: Permission | None, price: int
) -> list[Cell]:
    say, title = context.say, Cell(context.say(operation.title))
    if permission is None:
        return [title, Cell(say("not enabled"), tone="bad"), Cell(""), Cell("")]
    return [
        title,
        Cell(say("may call"), tone="good"),
        _price_cell(say, permission.price, price, operation.balance_unit),
        _rate_cell(say, permission.rate_limit, context.services.settings.rate_limit),
    ]


async def _held(context: Context, account: Account) -> dict[str, Permission]:
    found = await list_permissions(context.database, account.id)
    return {each.operation: each for each in found}


async def show_permissions(context: Context) -> Response:
    say, account = context.say, await find_wanted(context)
    held, states = await _held(context, account), await operation_states(context.database)
    is_open = account.closed_at_s is None
    rows = []
    for each in OPERATIONS:
        row = _permission_row(context, each, held.get(each.name), list_price(each, states))
        if is_open:
            rows.append([*row, _change(context, account, each)])
        else:
            rows.append([row[0], Cell(say("closed"), tone="bad"), *row[2:], Cell("")])
    columns = titles(say, "Operation", "State", "Price", "Calls a second")
    blocks: list[Block] = [Table([*columns, ""], rows)]
    if is_open:
        blocks.append(
            Form(
                PERMISSION,
                say("Save"),
                _fields(context, None),
                hidden={"account": account.id, "operation": _ALL},
                title=say("Change all operations at once"),
                note=say("A price that is left blank is the list price, a rate the default one."),
                is_line=True,
                is_folded=bool(held),
            )
        )
    return tab_page(context, account, PERMISSIONS, blocks)


def _change(context: Context, account: Account, operation: Operation) -> Cell:
    href = address(PERMISSION, account=account.id, operation=operation.name)
    return Cell(context.say("Change"), "time", href, of=context.say(operation.title))


async def show_permission(context: Context) -> Response:
    """The form for one operation of an account, as it is now."""
    say, account = context.say, await find_wanted(context)
    operation = chosen_operation(context)
    held = (await _held(context, account)).get(operation.name)
    states = await operation_states(context.database)
    _, *now = _permission_row(context, operation, held, list_price(operation, states))
    # Beside their names, and not aligned as in a column.
    facts = [
        (name, each._replace(kind=""))
        for name, each in zip((say("State"), say("Price"), say("Calls a second")), now, strict=True)
    ]
    form = Form(
        PERMISSION,
        say("Save"),
        _fields(context, held),
        hidden={"account": account.id, "operation": operation.name},
        title=say("Change"),
        note=say(
            "What is left blank becomes: {usual}.",
            usual=_terms(context, operation, Permission(operation.name, None, None), states),
        ),
        is_line=True,
    )
    return context.page(
        say(operation.title),
        [Facts(facts, say("Details")), form],
        crumbs=account_crumbs(context, account, PERMISSIONS),
    )


def _fields(context: Context, held: Permission | None) -> list[Field]:
    """What an account may have agreed on; what is not enabled yet is to be enabled here."""
    say, price, rate = context.say, "", ""
    if held is not None:
        price = "" if held.price is None else str(held.price)
        rate = "" if held.rate_limit is None else str(held.rate_limit)
    states = [("may", say("may call")), ("not", say("not enabled"))]
    return [
        Field("state", say("State"), "select", "may", states),
        Field(
            "price",
            say("Price in credits or calls"),
            "number",
            price,
            placeholder=say("list price"),
            least=0,
        ),
        Field("rate", say("Calls a second"), "number", rate, placeholder=say("default"), least=1),
    ]


def _wanted(context: Context) -> tuple[list[str], Permission | None]:
    """The operations in the form, and the permission to give for each; None to take it away."""
    say, wanted = context.say, context.form.get("operation", "")
    names = [each.name for each in OPERATIONS] if wanted == _ALL else [wanted]
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
    price = _price_cell(say, held.price, list_price(operation, states), operation.balance_unit)
    rate = _rate_cell(say, held.rate_limit, context.services.settings.rate_limit)
    return say("{price}, calls a second: {rate}", price=price.text, rate=rate.text)


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
    say, account = context.say, await find_wanted(context)
    names, given = _wanted(context)
    database, held = context.database, await _held(context, account)
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
    return context.go(PERMISSIONS, id=account.id, said="permission")
