"""The list of accounts, with filters and several orders, and opening one."""

from starlette.responses import Response

from tollway.ledger.account_pages import (
    BY_NAME,
    FEWEST_CREDITS,
    NEWEST,
    AccountFilter,
    ListedAccount,
    accounts_page,
)
from tollway.ledger.accounts import open_account
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Cell, Empty, Field, Filters, Form, Table
from tollway.web.operator.accounts import ONE, PATH, state_of
from tollway.web.wording import sentences


async def show_accounts(context: Context) -> Response:
    say, after = context.say, context.query("after")
    chosen = {name: context.query(name) for name in ("q", "state", "order")}
    wanted = AccountFilter(chosen["q"], chosen["state"], chosen["order"])
    found = await accounts_page(context.database, wanted, after, PAGE_ROWS + 1)
    more = ""
    if len(found) > PAGE_ROWS:
        more = address(PATH, **chosen, after=found[PAGE_ROWS - 1].position(wanted.order))
    is_filtered = bool(wanted.text or wanted.state)
    table = Table(
        [*map(say, sentences("Account", "State", "Credits", "Opened", "Id"))],
        [_account_row(context, each) for each in found[:PAGE_ROWS]],
        Empty(
            say("No account matches.")
            if is_filtered
            else say("There are no accounts yet: open the first above."),
            command="" if is_filtered else "tollway account open NAME",
        ),
        filters=_filters(context, wanted),
        older=more,
        newest=address(PATH, **chosen) if after else "",
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


def _filters(context: Context, wanted: AccountFilter) -> Filters:
    say = context.say
    states = [("", say("all")), ("open", say("open")), ("closed", say("closed"))]
    orders = [
        (BY_NAME, say("name")),
        (NEWEST, say("newest first")),
        (FEWEST_CREDITS, say("fewest credits first")),
    ]
    return Filters(
        PATH,
        [
            Field("q", say("Name or id"), "search", wanted.text),
            Field("state", say("State"), "select", wanted.state, states),
            Field("order", say("Sorted by"), "select", wanted.order, orders),
        ],
    )


def _account_row(context: Context, listed: ListedAccount) -> list[Cell]:
    account = listed.account
    return [
        Cell(account.name, href=address(ONE, id=account.id)),
        state_of(context, account),
        context.number(listed.credits),
        context.time(account.opened_at_s),
        Cell(account.id, "code"),
    ]


async def open_act(context: Context) -> Response:
    opened = await open_account(
        context.database, context.runtime, context.form.get("name", "").strip()
    )
    return context.go(ONE, id=opened.id, said="opened")
