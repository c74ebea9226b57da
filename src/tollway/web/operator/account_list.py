"""The list of accounts, with a search, and opening one."""

from starlette.responses import Response

from tollway.ledger.accounts import Account, credits_of, open_account, search_accounts
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Cell, Column, Empty, Field, Filters, Form, Table
from tollway.web.operator.accounts import ONE, PATH, state_of


async def show_accounts(context: Context) -> Response:
    say, text, after = context.say, context.query("q"), context.query("after")
    found = await search_accounts(context.database, text, after, PAGE_ROWS + 1)
    left = await credits_of(context.database, [each.id for each in found[:PAGE_ROWS]])
    rows = [_account_row(context, each, left.get(each.id)) for each in found[:PAGE_ROWS]]
    more = address(PATH, q=text, after=found[PAGE_ROWS - 1].name) if len(found) > PAGE_ROWS else ""
    table = Table(
        [
            Column(say("Account")),
            Column(say("State")),
            Column(say("Credits"), "number"),
            Column(say("Opened")),
            Column(say("Id")),
        ],
        rows,
        Empty(
            say("No account matches.")
            if text
            else say("There are no accounts yet: open the first above."),
            command="" if text else "tollway account open NAME",
        ),
        filters=Filters(PATH, [Field("q", say("Name or id"), "search", text)]),
        older=more,
        newest=address(PATH, q=text) if after else "",
        is_by_name=True,
    )
    opening = Form(
        f"{PATH}/open",
        say("Open account"),
        [Field("name", say("Name"), is_required=True, length_max=100)],
        title=say("Open an account"),
        is_line=True,
    )
    return context.page(say("Accounts"), [opening, table])


def _account_row(context: Context, account: Account, credit: int | None) -> list[Cell]:
    return [
        Cell(account.name, href=address(ONE, id=account.id)),
        state_of(context, account),
        context.number(credit),
        context.time(account.opened_at_s),
        Cell(account.id, "code"),
    ]


async def open_act(context: Context) -> Response:
    opened = await open_account(
        context.database, context.runtime, context.form.get("name", "").strip()
    )
    return context.go(ONE, id=opened.id, said="opened")
