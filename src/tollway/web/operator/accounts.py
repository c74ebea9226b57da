"""The list of accounts, and opening one; one account with all that belongs to it, and the acts on
it."""

import secrets
from dataclasses import replace

from starlette.responses import Response

from tollway.contract.operation import Unit
from tollway.identity.people import Role
from tollway.ledger.account_pages import (
    BY_NAME,
    FEWEST_CREDITS,
    NEWEST,
    AccountFilter,
    ListedAccount,
    accounts_page,
    position_in,
)
from tollway.ledger.accounts import Account, close_account, open_account
from tollway.ledger.entries import AMOUNT_MAX, amounts_by_unit, list_balances, top_up
from tollway.operations.catalogue import OPERATIONS
from tollway.web.account_parts import (
    balance_figures,
    recent_usage,
    token_form,
    tokens_table,
    units,
    usage_chart,
)
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Block, Cell, Empty, Facts, Field, Filters, Form, Link, Table
from tollway.web.ledger_parts import ledger_file, ledger_page, statement_page
from tollway.web.lists import page_part
from tollway.web.member_parts import (
    CHANGED,
    REMOVED,
    give_role,
    given_link,
    invite_form,
    invited,
    members_table,
    remove,
    role_page,
)
from tollway.web.operator.prices import ACCOUNT, permission_blocks
from tollway.web.operator.tables import given_reason, known_account, reason_field
from tollway.web.page_errors import PageError
from tollway.web.wording import amount, listed, one_line, sentence, titles

PATH = "/operator/accounts"
ONE = ACCOUNT
MEMBER = f"{ONE}/member"
_SAID = {
    "opened": sentence("The account is open. Top it up, enable operations, and issue a token."),
    "topped-up": sentence("Done. The account's next call sees it."),
    "permission": sentence("Done. It acts on the next call."),
    "revoked": sentence("The token is revoked: it is refused from the next call on."),
    "closed": sentence("The account is closed."),
    "removed": REMOVED,
    "role": CHANGED,
}


async def show_accounts(context: Context) -> Response:
    say = context.say
    chosen = {name: context.query(name) for name in ("q", "state", "order")}
    wanted = AccountFilter(chosen["q"], chosen["state"], chosen["order"])
    after = position_in(wanted.order, context.query("after"))
    found = await accounts_page(context.database, wanted, after, PAGE_ROWS + 1)
    part = page_part(found, after, PATH, lambda last: last.position(wanted.order), **chosen)
    is_filtered = bool(wanted.text or wanted.state)
    table = Table(
        titles(say, "Account", "State", "Credits", "Opened", "Id"),
        [_account_row(context, each) for each in part.rows],
        Empty(
            say("No account matches.")
            if is_filtered
            else say("There are no accounts yet: open the first above."),
            command="" if is_filtered else "tollway account open NAME",
        ),
        filters=_filters(context, wanted),
        older=part.next,
        newest=part.first,
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


def state_of(context: Context, account: Account) -> Cell:
    if account.closed_at_s is None:
        return Cell(context.say("open"), tone="good")
    return Cell(context.say("closed"), tone="bad")


async def find_wanted(context: Context) -> Account:
    wanted = context.form.get("account") or context.query("id")
    return await known_account(context, wanted)


async def show_account(context: Context) -> Response:
    return await account_page(context, await find_wanted(context))


async def account_page(context: Context, account: Account, *first: Block) -> Response:
    """One account; `first` are the blocks that an act shows."""
    say, database = context.say, context.database
    balances = await list_balances(database, account.id)
    used = await recent_usage(context, account.id)
    blocks = context.reported(_SAID, *first)
    is_closed = account.closed_at_s is not None
    opened_at_s = account.opened_at_s
    blocks.append(balance_figures(context, balances, used, opened_at_s, has_pace=not is_closed))
    if not is_closed:
        blocks += [_top_up_form(context, account), *await permission_blocks(context, account)]
    blocks.append(
        await tokens_table(
            context,
            account.id,
            path=ONE,
            kept={"id": account.id},
            revoke=f"{ONE}/token/revoke",
            is_closed=is_closed,
        )
    )
    if not is_closed:
        blocks.append(token_form(context, f"{ONE}/token", account.id))
    blocks.append(usage_chart(context, used))
    blocks += await _members(context, account)
    details = [
        (say("Id"), Cell(account.id, "mono")),
        (say("Opened"), context.time(account.opened_at_s)),
        (say("State"), state_of(context, account)),
    ]
    blocks.append(Facts(details, say("Details")))
    if not is_closed:
        blocks.append(_close_form(context, account))
    return context.page(
        account.name,
        blocks,
        crumbs=[Link(say("Accounts"), PATH)],
        actions=[
            Link(say("Requests"), address("/operator/requests", account=account.id)),
            Link(say("Ledger"), address(f"{ONE}/ledger", id=account.id)),
            Link(say("Clients"), address(f"{ONE}/clients", id=account.id)),
            Link(say("Consents"), address("/operator/consents", q=account.id)),
            Link(say("Trail"), address("/operator/trail", of=f"account {account.id}")),
        ],
    )


def _close_form(context: Context, account: Account) -> Form:
    say = context.say
    return Form(
        f"{ONE}/close",
        say("Close the account"),
        hidden={"account": account.id},
        title=say("Close the account"),
        note=say("Its tokens are refused from the next call on. It cannot be opened again."),
        tone="warn",
        is_folded=True,
    )


def _top_up_form(context: Context, account: Account) -> Form:
    say = context.say
    return Form(
        f"{ONE}/top-up",
        say("Top up"),
        [
            Field("unit", say("What"), "select", "credits", units(context)),
            Field("amount", say("Amount"), "number", is_required=True),
            reason_field(context),
        ],
        hidden={"account": account.id},
        title=say("Top up"),
        note=say(
            "{operations}: paid in calls. All other operations: paid in credits. A negative amount "
            "corrects.",
            operations=listed(
                say, (say(each.title) for each in OPERATIONS if each.unit is Unit.CALLS)
            ),
        ),
        is_line=True,
    )


async def top_up_act(context: Context) -> Response:
    say, account = context.say, await find_wanted(context)
    number = context.whole_number("amount", say("Amount"), AMOUNT_MAX)
    unit = context.form.get("unit", "")
    if unit not in dict(units(context)) or number == 0:
        raise PageError(
            400, "This cannot be added", "Choose a balance, and an amount that is not 0."
        )
    balances = await amounts_by_unit(context.database, account.id)
    before, note = balances.get(unit, 0), given_reason(context)
    if before + number < 0:
        raise PageError(
            409,
            "That is not possible",
            "{account} has {before}: no more can be taken away.",
            account=account.name,
            before=amount(say, unit, before),
        ).at("amount")
    button = say("Add {amount}", amount=amount(say, unit, number))
    if number < 0:
        button = say("Take {amount} away", amount=amount(say, unit, -number))
    once = context.form.get("once", "")[:32] or secrets.token_hex(16)
    replace(context, form={**context.form, "once": once}).confirm(
        say(
            "{account} has {before}. After this it has {after}. Reason: {reason}",
            account=account.name,
            before=amount(say, unit, before),
            after=amount(say, unit, before + number),
            reason=one_line(note),
        ),
        button,
        is_harmless=number > 0,
    )
    await top_up(context.database, context.runtime, account.id, unit, number, note, once=once)
    return context.go(ONE, id=account.id, said="topped-up")


async def close_act(context: Context) -> Response:
    say, account = context.say, await find_wanted(context)
    context.confirm(
        say("Close the account {name} for good?", name=account.name), say("Close the account")
    )
    await close_account(context.database, context.runtime, account.id)
    return context.go(ONE, id=account.id, said="closed")


async def _members(context: Context, account: Account) -> list[Block]:
    say, is_open = context.say, account.closed_at_s is None
    none = say("No member can sign in yet: invite the owner of the account.")
    table = await members_table(
        context,
        account.id,
        path=ONE,
        acts=MEMBER,
        kept={"id": account.id},
        empty=none if is_open else say("There is nothing here yet."),
    )
    if not is_open:
        return [table]
    return [table, invite_form(context, f"{ONE}/invite", Role.OWNER, {"account": account.id})]


async def invite_act(context: Context) -> Response:
    account = await find_wanted(context)
    return await account_page(context, account, await invited(context, account.id))


async def link_act(context: Context) -> Response:
    account = await find_wanted(context)
    return await account_page(context, account, await given_link(context, account.id))


async def show_role(context: Context) -> Response:
    account = await find_wanted(context)
    named, crumbs = {"account": account.id}, _crumbs(context, account)
    return await role_page(context, account.id, f"{MEMBER}/role", named, crumbs)


async def role_act(context: Context) -> Response:
    account = await find_wanted(context)
    await give_role(context, account.id)
    return context.go(ONE, id=account.id, said="role")


async def remove_act(context: Context) -> Response:
    account = await find_wanted(context)
    await remove(context, account.id)
    return context.go(ONE, id=account.id, said="removed")


def _crumbs(context: Context, account: Account) -> list[Link]:
    return [Link(context.say("Accounts"), PATH), Link(account.name, address(ONE, id=account.id))]


async def show_ledger(context: Context) -> Response:
    account = await find_wanted(context)
    return await ledger_page(context, account.id, ONE, _crumbs(context, account))


async def show_statement(context: Context) -> Response:
    account = await find_wanted(context)
    return await statement_page(context, account, ONE, _crumbs(context, account))


async def ledger_csv(context: Context) -> Response:
    return await ledger_file(context, (await find_wanted(context)).id)
