"""The first page of an account: what is left, what was used, and what to do next."""

import asyncio
from collections.abc import Mapping

from starlette.responses import Response

from tollway.identity.people import Person
from tollway.ledger.accounts import Account, find_account
from tollway.ledger.entries import AMOUNT_MAX, Balance, list_balances
from tollway.ledger.request_log import CallFilter, log_page
from tollway.ledger.tokens import has_own_token
from tollway.operations.catalogue import BY_NAME, OPERATIONS
from tollway.web.account_parts import (
    balance_figures,
    headed,
    prices_of,
    recent_usage,
    state_notice,
    unit_name,
    units,
    usage_chart,
)
from tollway.web.area import Context, address
from tollway.web.blocks import Block, Cell, Columns, Empty, Field, Form, Link, Notice, Table
from tollway.web.page_errors import PageError
from tollway.web.wording import amount, grouped, named_reason, plain_number, sentence
from tollway.webhooks.polled_events import list_alerts, set_alert

PATH = "/account"
ALERT = f"{PATH}/alert"
_REFUSED_SHOWN = 5
# Shown before a question that is asked again.
PRICE_RAISED = sentence("The price has risen since it was shown.")


async def own_account(context: Context) -> Account:
    return await find_account(context.database, account_id(context.person))


def account_id(person: Person) -> str:
    assert person.account_id is not None
    return person.account_id


async def show_home(context: Context) -> Response:
    database, own = context.database, account_id(context.person)
    # Concurrently: one after the other, each read would queue again among the paid calls.
    account, balances, has_token, used, lines, prices = await asyncio.gather(
        own_account(context),
        list_balances(database, own),
        has_own_token(database, own),
        recent_usage(context, own),
        list_alerts(database, own),
        prices_of(context, own),
    )
    alerts, is_closed = dict(lines), account.closed_at_s is not None
    blocks: list[Block] = [*state_notice(context, account)]
    if not is_closed:
        # A person who may change nothing can neither issue a token nor send a call.
        if not used and context.person.may_change:
            blocks.append(_first_call(context, has_token=has_token))
        blocks += _low(context, balances, alerts)
    ledger = f"{PATH}/ledger"
    opened_at_s, has_pace = account.opened_at_s, not is_closed
    blocks.append(balance_figures(context, balances, used, opened_at_s, ledger, has_pace=has_pace))
    blocks.append(usage_chart(context, used))
    units = [each.unit for each in balances]
    operations = _operations(context, prices, is_closed=is_closed)
    blocks.append(Columns([operations, await _refused(context, account, units)]))
    if context.person.may_change and not is_closed:
        blocks.append(_alert_form(context, alerts))
    return context.page(account.name, blocks)


def _first_call(context: Context, *, has_token: bool) -> Notice:
    say = context.say
    if has_token:
        text = say("Your first call: try an operation in the sandbox, free of charge.")
        return Notice(text, link=Link(say("Try an operation"), f"{PATH}/try"))
    text = say("Begin with a token: it is what your program sends with each call.")
    return Notice(text, link=Link(say("Issue a token"), f"{PATH}/tokens"))


def _low(context: Context, balances: list[Balance], alerts: dict[str, int]) -> list[Block]:
    """A notice for each balance below the threshold that the account has set."""
    say, left = context.say, {each.unit: each.amount for each in balances}
    return [
        Notice(
            say(
                "{balance}: {left} left, below your alert of {below}. "
                "Ask the operator to top it up.",
                balance=headed(unit_name(context, unit)),
                left=grouped(left.get(unit, 0)),
                below=grouped(below),
            ),
            "bad",
        )
        for unit, below in alerts.items()
        if left.get(unit, 0) < below
    ]


def _alert_form(context: Context, alerts: dict[str, int]) -> Form:
    say = context.say
    lines = say(", ").join(
        say("{balance} below {below}", balance=unit_name(context, unit), below=f"{below:,}")
        for unit, below in alerts.items()
    )
    note = say(
        "When a balance falls below this number, this page and a webhook event report it. "
        "0 ends the alert."
    )
    if lines:
        note += say(" ") + say("Set now: {lines}.", lines=lines)
    unit = next(iter(alerts), "credits")
    return Form(
        ALERT,
        say("Set the alert"),
        [
            Field("unit", say("Balance"), "select", unit, units(context)),
            Field(
                "below", say("Report below"), "number", str(alerts.get(unit, "")), is_required=True
            ),
        ],
        title=say("Alert on a low balance"),
        note=note,
        is_line=True,
    )


async def alert_act(context: Context) -> Response:
    unit = context.form.get("unit", "")
    below = context.whole_number("below", context.say("Report below"), AMOUNT_MAX)
    if unit not in dict(units(context)) or below < 0:
        wrong = PageError(
            400, "This alert cannot be set", "Choose a balance, and an amount from 0."
        )
        raise wrong.at("below")
    own = account_id(context.person)
    if (await own_account(context)).closed_at_s is not None:
        raise PageError(409, "This account is closed", "It can only be read.")
    await set_alert(context.database, own, unit, below, context.day_start_s, context.runtime)
    return context.go(PATH)


def shown_cost(context: Context, name: str) -> int:
    """The cost that the question showed; -1, less than any cost, if it showed none."""
    cost = plain_number(context.form.get(name, ""))
    return -1 if cost is None else cost


def _operations(context: Context, prices: Mapping[str, int | None], *, is_closed: bool) -> Table:
    """What the account may call, and at which price; a closed account may call nothing."""
    say, rows = context.say, []
    other = say("closed") if is_closed else say("not enabled")
    for operation in OPERATIONS:
        price = None if is_closed else prices[operation.name]
        is_open = price is not None
        rows.append(
            [
                Cell(say(operation.title), href=address(f"{PATH}/try", operation=operation.name)),
                Cell(say("may call") if is_open else other, tone="good" if is_open else "bad"),
                Cell("" if price is None else amount(say, operation.balance_unit, price), "number"),
            ]
        )
    return Table(
        [say("Operation"), say("State"), say("Price")],
        rows,
        title=say("Operations"),
        links=[Link(say("API reference"), "/docs")],
        is_log=True,
    )


async def _refused(context: Context, account: Account, units: list[str]) -> Table:
    """The last refused calls; the receipt of each says what to do."""
    say = context.say
    newest = await log_page(context.database, CallFilter(account.id), units, 40)
    refused = [each for each in newest.calls if each.outcome == "refused"][:_REFUSED_SHOWN]
    rows = [
        [
            context.log_time(each.at_ms / 1000),
            Cell(say(BY_NAME[each.operation].title if each.operation in BY_NAME else "–")),
            Cell(
                named_reason(say, each.reason),
                "code",
                address(f"{PATH}/request", id=each.request_id),
            ),
        ]
        for each in refused
    ]
    return Table(
        [say("When"), say("Operation"), say("Reason")],
        rows,
        Empty(say("None of the newest calls was refused.")),
        title=say("Refused calls"),
        links=[Link(say("All calls"), f"{PATH}/requests")],
        is_log=True,
    )
