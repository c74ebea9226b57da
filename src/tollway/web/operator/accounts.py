"""The list of accounts, and opening one; the overview of an account with its balances and usage,
topping it up and closing it; and its ledger."""

import secrets
from dataclasses import replace

from starlette.responses import Response

from tollway.contract.operation import Unit
from tollway.ledger import LedgerError
from tollway.ledger.account_list import (
    BY_NAME,
    FEWEST_CREDITS,
    NEWEST,
    STATES,
    AccountFilter,
    ListedAccount,
    accounts_page,
    position_in,
)
from tollway.ledger.accounts import (
    Account,
    close_account,
    open_account,
    resume_account,
    suspend_account,
)
from tollway.ledger.entries import (
    AMOUNT_MAX,
    NOTE_MAX,
    amounts_by_unit,
    checked_note,
    list_balances,
    top_up,
)
from tollway.operations.catalogue import OPERATIONS
from tollway.web.account_parts import (
    balance_figures,
    recent_usage,
    units,
    usage_chart,
)
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import (
    Block,
    Cell,
    Empty,
    Facts,
    Field,
    Filters,
    Form,
    Notice,
    Table,
    folded_act,
)
from tollway.web.ledger_parts import ledger_file, ledger_page, statement_page
from tollway.web.lists import page_part
from tollway.web.operator.account_tabs import (
    ACCOUNTS,
    LEDGER,
    ONE,
    account_crumbs,
    account_frame,
    find_wanted,
    tab_page,
)
from tollway.web.page_errors import PageError
from tollway.web.wording import amount, listed, one_line, titles


async def show_accounts(context: Context) -> Response:
    say = context.say
    chosen = {name: context.query(name) for name in ("q", "state", "order")}
    wanted = AccountFilter(chosen["q"], chosen["state"], chosen["order"])
    after = position_in(wanted.order, context.query("after"))
    found = await accounts_page(context.database, wanted, after, PAGE_ROWS + 1)
    part = page_part(found, after, ACCOUNTS, lambda last: last.position(wanted.order), **chosen)
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
        f"{ACCOUNTS}/open",
        say("Open account"),
        [Field("name", say("Name"), is_required=True, length_max=100)],
        title=say("Open an account"),
        is_line=True,
    )
    if context.query("said") == "nothing":
        text = say(
            "Nothing is called “{text}”: no request, account, shop, order or waybill.",
            text=wanted.text,
        )
        return context.page(say("Accounts"), [Notice(text, "soon"), table])
    return context.page(say("Accounts"), [opening, table])


def _filters(context: Context, wanted: AccountFilter) -> Filters:
    say = context.say
    states = [("", say("all")), *((each, say(each)) for each in STATES)]
    orders = [
        (BY_NAME, say("name")),
        (NEWEST, say("newest first")),
        (FEWEST_CREDITS, say("fewest credits first")),
    ]
    return Filters(
        ACCOUNTS,
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
    tones = {"open": "good", "suspended": "soon", "closed": "bad"}
    return Cell(context.say(account.state), tone=tones[account.state])


async def show_account(context: Context) -> Response:
    account = await find_wanted(context)
    return tab_page(context, account, ONE, await _overview(context, account))


async def _overview(context: Context, account: Account) -> list[Block]:
    say = context.say
    balances = await list_balances(context.database, account.id)
    used = await recent_usage(context, account.id)
    is_open, opened_at_s = account.closed_at_s is None, account.opened_at_s
    details = [
        (say("Id"), Cell(account.id, "mono id")),
        (say("Opened"), context.time(opened_at_s)),
        (say("State"), state_of(context, account)),
    ]
    return [
        balance_figures(context, balances, used, opened_at_s, has_pace=is_open),
        *([_top_up_form(context, account)] if is_open else ()),
        usage_chart(context, used),
        Facts(details, say("Details")),
        *([_suspend_form(context, account), _close_form(context, account)] if is_open else ()),
    ]


def _suspend_form(context: Context, account: Account) -> Form:
    say, hidden = context.say, {"account": account.id}
    if account.suspended_at_s is not None:
        resume, note = say("Resume the account"), say("Its next call is answered again.")
        return Form(f"{ONE}/resume", resume, hidden=hidden, title=resume, note=note)
    note = say(
        "Its calls are refused from the next one on. Balances, tokens, prices and members stay, "
        "and its pages can be used."
    )
    return folded_act(f"{ONE}/suspend", say("Suspend the account"), hidden, note)


def _close_form(context: Context, account: Account) -> Form:
    say = context.say
    note = say("Its tokens are refused from the next call on. It cannot be opened again.")
    return folded_act(f"{ONE}/close", say("Close the account"), {"account": account.id}, note)


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


def reason_field(context: Context) -> Field:
    """The reason for a change of a balance."""
    return Field("note", context.say("Reason"), is_required=True, length_max=NOTE_MAX)


def given_reason(context: Context) -> str:
    """The reason from `reason_field`; people must give one, programs need not."""
    try:
        note = checked_note(context.form.get("note", ""))
    except LedgerError as error:
        text = context.said(error.sentence)
        raise PageError(409, "That is not possible", text).at("note") from None
    if not note:
        raise PageError(
            400, "A reason is missing", "Fill in the field {field}.", field=context.say("Reason")
        ).at("note")
    return note


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


async def suspend_act(context: Context) -> Response:
    say, account = context.say, await find_wanted(context)
    context.confirm(
        say("Suspend the account {name}?", name=account.name), say("Suspend the account")
    )
    await suspend_account(context.database, context.runtime, account.id)
    return context.go(ONE, id=account.id, said="suspended")


async def resume_act(context: Context) -> Response:
    account = await find_wanted(context)
    await resume_account(context.database, context.runtime, account.id)
    return context.go(ONE, id=account.id, said="resumed")


async def close_act(context: Context) -> Response:
    say, account = context.say, await find_wanted(context)
    context.confirm(
        say("Close the account {name} for good?", name=account.name), say("Close the account")
    )
    await close_account(context.database, context.runtime, account.id)
    return context.go(ONE, id=account.id, said="closed")


async def show_ledger(context: Context) -> Response:
    account = await find_wanted(context)
    frame = account_frame(context, account, LEDGER)
    return await ledger_page(context, account.id, ONE, account.name, **frame)


async def show_statement(context: Context) -> Response:
    account = await find_wanted(context)
    crumbs = account_crumbs(context, account, LEDGER)
    return await statement_page(context, account, ONE, crumbs)


async def ledger_csv(context: Context) -> Response:
    return await ledger_file(context, (await find_wanted(context)).id)
