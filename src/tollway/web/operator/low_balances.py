"""The alarms of balances that run out soon, or are below the line that their account has set."""

from collections.abc import Sequence
from datetime import timedelta

from tollway.ledger.account_pages import FEWEST_CREDITS
from tollway.ledger.balance_pace import (
    ACCOUNTS_MAX,
    SOON_DAYS,
    BalancePace,
    balance_paces,
    days_left,
)
from tollway.ledger.usage import top_accounts
from tollway.store.database import Row
from tollway.web.account_parts import lasts_until, pace_tone, unit_name
from tollway.web.area import Context, address
from tollway.web.blocks import Cell
from tollway.web.wording import counted, grouped, sentence

_SHOWN = 20

Alarms = list[list[Cell]]


def alarm(text: str, tone: str, where: str, href: str) -> list[Cell]:
    return [Cell(text, tone=tone), Cell(where, "time", href)]


async def busiest_accounts(context: Context) -> Sequence[Row]:
    """Rows of (account id, calls, amount), the most calls first."""
    # Yesterday and today by the day: 24 hours by the hour would be ten times as many rows.
    today = context.web.now().date()
    yesterday = today - timedelta(days=1)
    return await context.services.read_cache.get(
        "top accounts", lambda: top_accounts(context.database, yesterday, today, ACCOUNTS_MAX)
    )


async def low_balances(context: Context) -> Alarms:
    """Of the busiest accounts alone: to find the lowest of all balances, each would be read."""
    say, zone, now_s = context.say, context.web.zone, context.now_s
    ids = [account_id for account_id, _, _ in await busiest_accounts(context)]
    found = []
    for each in await balance_paces(context.database, ids, now_s, zone) if ids else ():
        days = days_left(each.amount, each.taken, each.opened_at_s, now_s, zone)
        if days is not None and days < SOON_DAYS:
            found.append((days, each.account_name, each.unit, pace_tone(days), each))
        elif each.below is not None and each.amount < each.below:
            found.append((SOON_DAYS, each.account_name, each.unit, "soon", each))
    found.sort()
    rows = [
        alarm(
            _text(context, days, each),
            tone,
            say("Top up"),
            address("/operator/account", id=each.account_id),
        )
        for days, _, _, tone, each in found[:_SHOWN]
    ]
    if found[_SHOWN:]:
        text = counted(
            say,
            len(found[_SHOWN:]),
            sentence("{count} more balance is low"),
            sentence("{count} more balances are low"),
        )
        href = address("/operator/accounts", order=FEWEST_CREDITS)
        rows.append(alarm(text, "soon", say("Accounts"), href))
    return rows


def _text(context: Context, days: int, low: BalancePace) -> str:
    say = context.say
    if days < SOON_DAYS:
        why = lasts_until(context, days) if low.amount else say("used up")
    else:
        why = say("below the account's own alert of {below}", below=grouped(low.below or 0))
    return say(
        "{account}: {left} left ({balance}), {why}",
        account=low.account_name,
        balance=unit_name(context, low.unit),
        left=grouped(low.amount),
        why=why,
    )


async def watched_note(context: Context) -> str:
    """Says whose balances were looked at, if not those of all accounts with calls."""
    if len(await busiest_accounts(context)) < ACCOUNTS_MAX:
        return ""
    return context.say(
        "Of balances, those of the {count} accounts with the most calls yesterday and today are "
        "looked at.",
        count=ACCOUNTS_MAX,
    )
