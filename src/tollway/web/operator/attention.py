"""What needs an operator: each alarm, with a link to where it can be fixed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from itertools import chain

from sqlalchemy import exists, func, select

from tollway.carriers.pool_levels import numbers_a_day, numbers_left
from tollway.intake.rejects import FULL_SOURCES
from tollway.ledger.account_list import FEWEST_CREDITS
from tollway.ledger.balance_pace import (
    ACCOUNTS_MAX,
    SOON_DAYS,
    BalancePace,
    balance_paces,
    days_left,
)
from tollway.ledger.holds import count_open_holds
from tollway.ledger.usage import DAY_S, top_accounts
from tollway.store.database import Row
from tollway.store.last_runs import AUDIT, BACKUP, PUSH_PREFIX, last_runs
from tollway.store.query import Query
from tollway.store.schema.carriers import carrier, carrier_link, waybill_number
from tollway.store.schema.intake import rejected_record
from tollway.store.schema.ledger import account
from tollway.store.serving_nodes import all_nodes
from tollway.web.account_parts import lasts_until, pace_tone, unit_name
from tollway.web.area import Context, address
from tollway.web.blocks import Block, Cell, Notice, Table
from tollway.web.wording import counted, grouped, sentence

FEW_NUMBERS = 100
# Of low balances, so many are listed.
_SHOWN = 20
_some_rejected = select(rejected_record.c.id).limit(1000).subquery()
_REJECTED = Query(lambda: select(func.count()).select_from(_some_rejected))
_OLDEST = Query(lambda: select(func.min(account.c.opened_at_s)))

# Carriers that issue no numbers themselves, and for which none were ever loaded.
_WITHOUT_NUMBERS = Query(
    lambda: (
        select(carrier.c.wp_code)
        .where(
            ~exists().where(carrier_link.c.wp_code == carrier.c.wp_code),
            ~exists().where(waybill_number.c.wp_code == carrier.c.wp_code),
        )
        .order_by(carrier.c.wp_code)
    )
)


_Alarms = AsyncIterator[list[Cell]]


def _alarm(text: str, tone: str, where: str, href: str) -> list[Cell]:
    return [Cell(text, tone=tone), Cell(where, "time", href)]


async def attention(context: Context) -> list[Block]:
    say = context.say
    found = await asyncio.gather(*(_alarms(find(context)) for find in _FINDERS))
    rows = list(chain.from_iterable(found))
    note = await _watched_note(context)
    if not rows:
        text = say(" ").join(filter(None, (say("Nothing needs attention."), note)))
        return [Notice(text, "good")]
    columns = [say("What"), say("Where")]
    return [Table(columns, rows, title=say("Needs attention"), note=note, is_ranked=True)]


async def _alarms(found: _Alarms) -> list[list[Cell]]:
    return [each async for each in found]


async def _overdue(context: Context) -> _Alarms:
    say = context.say
    holds = await count_open_holds(context.database, int(context.now_s * 1000))
    if holds.overdue:
        text = counted(
            say,
            holds.overdue,
            sentence("{count} waybill waits too long for its carrier"),
            sentence("{count} waybills wait too long for their carrier"),
        )
        yield _alarm(text, "bad", say("Waybills"), "/operator/waybills")


async def _pools(context: Context) -> _Alarms:
    """Pools that are nearly empty, or will be within days at the pace of the last 24 hours."""
    say, where = context.say, context.say("Load numbers")
    paces = await numbers_a_day(context.database, int(context.now_s))
    needed = {wp_code: pace * SOON_DAYS for wp_code, pace in paces.items()}
    for wp_code, left in sorted((await numbers_left(context.database, needed)).items()):
        pace = paces.get(wp_code, 0.0)
        if left and pace and left / pace < SOON_DAYS:
            text = say(
                "{carrier} runs out in {days} days at today's pace, numbers left: {count}",
                carrier=wp_code,
                days=f"{left / pace:.1f}",
                count=grouped(left),
            )
        elif left < FEW_NUMBERS:
            text = counted(
                say,
                left,
                sentence("{carrier} has {count} number left"),
                sentence("{carrier} has {count} numbers left"),
                carrier=wp_code,
            )
        else:
            continue
        tone = "bad" if left == 0 else "soon"
        yield _alarm(text, tone, where, address("/operator/carriers", load=wp_code))
    for (wp_code,) in await context.database.fetch_long(_WITHOUT_NUMBERS, "overview"):
        text = say("{carrier} never had numbers", carrier=wp_code)
        yield _alarm(text, "bad", where, address("/operator/carriers", load=wp_code))


async def _rejected(context: Context) -> _Alarms:
    say = context.say
    ((rejected,),) = await context.database.fetch_long(_REJECTED, "overview")
    if not rejected:
        return
    for (source,) in await context.database.fetch_long(FULL_SOURCES, "overview"):
        text = say("Pushes of {name} with wrong records are refused: too many wait", name=source)
        yield _alarm(text, "bad", say("Data"), "/operator/data")
    text = counted(
        say,
        rejected,
        sentence("{count} pushed record was rejected"),
        sentence("{count} pushed records were rejected"),
    )
    yield _alarm(text, "soon", say("Data"), "/operator/data")


async def _runs(context: Context) -> _Alarms:
    """Sources that went silent, an audit that failed or is missing, and a missing backup."""
    say, runs = context.say, await last_runs(context.database)

    def is_long_ago(at_s: float) -> bool:
        # A time that is as far ahead is from a wrong clock, and says nothing.
        return abs(context.now_s - at_s) > DAY_S

    for name, run in runs.items():
        if name.startswith(PUSH_PREFIX) and is_long_ago(run.at_s):
            source = name.removeprefix(PUSH_PREFIX)
            text = say("Source {name} has pushed nothing for a day", name=source)
            yield _alarm(text, "soon", say("Data"), "/operator/data")
    audited = runs.get(AUDIT)
    if audited is not None and not audited.is_good:
        yield _alarm(say("The last audit failed"), "bad", say("Audit"), "/operator/audit")
    ((oldest_s,),) = await context.database.fetch_all(_OLDEST)
    # A gateway without accounts has nothing to lose yet.
    began_s = context.now_s if oldest_s is None else oldest_s
    if is_long_ago(audited.at_s if audited else began_s):
        yield _alarm(say("There was no audit for a day"), "soon", say("Audit"), "/operator/audit")
    copied = runs.get(BACKUP)
    if not context.database.is_shared and is_long_ago(copied.at_s if copied else began_s):
        text = say("There was no backup for a day")
        yield _alarm(text, "soon", say("Backup"), "/operator/backup")


async def _nodes(context: Context) -> _Alarms:
    """Nodes that stopped reporting, run an older version, or have a replica that lags behind."""
    say, now_ms = context.say, int(context.now_s * 1000)
    nodes = await all_nodes(context.database)
    newest = max((each.knows_schema for each in nodes), default="")
    lag_ms_max = context.services.settings.read_lag_s * 1000
    for each in nodes:
        if not each.is_alive(now_ms):
            text = say("Node {name} has not been seen for a while", name=each.name)
        elif each.knows_schema < newest:
            text = say("Node {name} runs an older version", name=each.name)
        elif each.lag_ms is not None and each.lag_ms > lag_ms_max:
            text = say("The replica of node {name} is behind", name=each.name)
        else:
            continue
        yield _alarm(text, "soon", say("Nodes"), "/operator/nodes")


async def _low_balances(context: Context) -> _Alarms:
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
    for days, _, _, tone, each in found[:_SHOWN]:
        href = address("/operator/account", id=each.account_id)
        yield _alarm(_low_text(context, days, each), tone, say("Top up"), href)
    if found[_SHOWN:]:
        text = counted(
            say,
            len(found[_SHOWN:]),
            sentence("{count} more balance is low"),
            sentence("{count} more balances are low"),
        )
        href = address("/operator/accounts", order=FEWEST_CREDITS)
        yield _alarm(text, "soon", say("Accounts"), href)


def _low_text(context: Context, days: int, low: BalancePace) -> str:
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


async def _watched_note(context: Context) -> str:
    """Says whose balances were looked at, if not those of all accounts with calls."""
    if len(await busiest_accounts(context)) < ACCOUNTS_MAX:
        return ""
    return context.say(
        "Of balances, those of the {count} accounts with the most calls yesterday and today are "
        "looked at.",
        count=ACCOUNTS_MAX,
    )


async def busiest_accounts(context: Context) -> Sequence[Row]:
    """Rows of (account id, calls, amount), the most calls first."""
    # Yesterday and today by the day: 24 hours by the hour would be ten times as many rows.
    today = context.web.now().date()
    yesterday = today - timedelta(days=1)
    return await context.services.read_cache.get(
        "top accounts", lambda: top_accounts(context.database, yesterday, today, ACCOUNTS_MAX)
    )


_FINDERS: tuple[Callable[[Context], _Alarms], ...] = (
    _overdue,
    _pools,
    _low_balances,
    _runs,
    _rejected,
    _nodes,
)
