"""What goes on: calls, refusals, what was taken, and what needs attention."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Integer, bindparam, func, select
from starlette.responses import Response

from tollway.ledger.accounts import names_of
from tollway.ledger.request_log import ANY_REFUSAL
from tollway.ledger.usage import HOUR_S, MINUTE_S, usage_by_time
from tollway.operations.catalogue import BY_NAME
from tollway.store.database import Database, Row
from tollway.store.query import Query
from tollway.store.schema.ledger import refused_call
from tollway.web.account_parts import calls_chart
from tollway.web.area import Context, address
from tollway.web.blocks import Block, Cell, Chart, Columns, Empty, Figure, Figures, Link, Table
from tollway.web.charts import spark
from tollway.web.latencies import Percentiles
from tollway.web.operator.attention import attention, busiest_accounts
from tollway.web.wording import exact_time, grouped, named_reason

PATH = "/operator"
REQUESTS = f"{PATH}/requests"
_LIVE_S = 5
_TOP = 8
# Percentiles of fewer calls say nothing.
_CALLS_MEANT = 10
# Counts at most this many of the newest refused calls: with more, the shares hardly change.
_COUNTED_MAX = 5000

_newest_refused = (
    select(refused_call.c.reason, (1 + refused_call.c.more).label("calls"))
    .where(
        refused_call.c.at_ms >= bindparam("since_ms"),
        refused_call.c.code != 0,
        refused_call.c.is_test == 0,
    )
    .order_by(refused_call.c.at_ms.desc())
    .limit(bindparam("most", type_=Integer))
    .subquery()
)
_REFUSED = Query(
    lambda: select(_newest_refused.c.reason, func.sum(_newest_refused.c.calls)).group_by(
        _newest_refused.c.reason
    )
)


async def show_overview(context: Context) -> Response:
    now_s = int(context.now_s)
    # Concurrently: one after the other, each read would queue again among the paid calls.
    (minutes, hours), refused, taken, alarms, top = await asyncio.gather(
        latest_usage(context, now_s),
        _refusals(context.database, now_s),
        context.services.latencies.recent(context.now_s),
        attention(context),
        _top(context),
    )
    blocks: list[Block] = [
        _figures(context, minutes, hours, refused, taken),
        *alarms,
        _chart(context, hours, now_s),
        Columns([top, _reasons(context, refused, now_s)]),
    ]
    return context.page(context.say("Overview"), blocks, live_s=_LIVE_S)


async def latest_usage(context: Context, now_s: int) -> tuple[list[Row], list[Row]]:
    """The usage of 60 minutes and of 24 hours; the current hour comes from the minutes."""
    minute_s, hour_s = now_s - now_s % MINUTE_S, now_s - now_s % HOUR_S
    # The sums may still miss some calls of the minute that has just passed.
    minutes, past = await asyncio.gather(
        _usage(context, MINUTE_S, minute_s - 59 * MINUTE_S, minute_s - MINUTE_S),
        _usage(context, HOUR_S, hour_s - 23 * HOUR_S, hour_s, hour_s),
    )
    return minutes, [*past, *(row for row in minutes if row[0] >= hour_s)]


async def _usage(
    context: Context, span_s: int, since_s: int, settled_s: int, until_s: int = 2**62
) -> list[Row]:
    """Usage by minutes or hours. What is older than `settled_s` hardly changes any more, so it may
    come from the cache."""
    database = context.database

    async def read_settled() -> tuple[int, Sequence[Row]]:
        rows: list[Row] = []
        # An hour at a time, to let other long reads, also those of this page, go in between.
        for start_s in range(since_s, settled_s, HOUR_S):
            end_s = min(start_s + HOUR_S, settled_s)
            rows += await usage_by_time(database, span_s, start_s, end_s)
        return settled_s, rows

    # A cached result ends earlier if it was read before the current minute or hour began.
    read_to_s, settled = await context.services.read_cache.get(f"usage {span_s}", read_settled)
    newest: Sequence[Row] = ()
    if read_to_s < until_s:
        newest = await usage_by_time(database, span_s, read_to_s, until_s)
    return [row for row in (*settled, *newest) if row[0] >= since_s]


async def _refusals(database: Database, now_s: int) -> Counter[str]:
    rows = await database.fetch_long(
        _REFUSED, "overview", since_ms=(now_s - HOUR_S) * 1000, most=_COUNTED_MAX
    )
    return Counter({reason: int(calls) for reason, calls in rows})


def _figures(
    context: Context,
    minutes: Sequence[Row],
    hours: Sequence[Row],
    refused: Counter[str],
    taken: Percentiles | None,
) -> Figures:
    say, now_s = context.say, int(context.now_s)
    by_minute: Counter[int] = Counter()
    for start_s, _, calls, _ in minutes:
        by_minute[start_s] += int(calls)
    first = now_s - now_s % 60 - 59 * MINUTE_S
    series = [by_minute[first + index * MINUTE_S] for index in range(60)]
    last_hour = sum(series)
    since = _an_hour_ago(context, now_s)
    not_charged = refused.total()
    share = 100 * not_charged / (not_charged + last_hour) if not_charged + last_hour else 0
    return Figures(
        [
            Figure(
                say("Charged in the last minute"),
                grouped(max(series[-2:])),
                note=say("below, the last hour"),
                spark=spark(series),
            ),
            Figure(
                say("Charged in the last hour"),
                grouped(last_hour),
                href=address(REQUESTS, reason="SUCCESS", since=since),
            ),
            Figure(
                say("Refused in the last hour"),
                grouped(not_charged) + ("+" if not_charged >= _COUNTED_MAX else ""),
                note=say("{share} % of all calls", share=f"{share:.1f}"),
                tone="bad" if share > 20 else "",
                href=address(REQUESTS, reason=ANY_REFUSAL, since=since),
            ),
            _latency_figure(context, taken),
            Figure(say("Credits taken in 24 h"), grouped(_credits(hours))),
        ]
    )


def _credits(hours: Sequence[Row]) -> int:
    return sum(
        int(spent)
        for _, operation, _, spent in hours
        if operation not in BY_NAME or BY_NAME[operation].balance_unit == "credits"
    )


def _an_hour_ago(context: Context, now_s: int) -> str:
    """In the format of the log's filter."""
    return datetime.fromtimestamp(now_s - HOUR_S, context.web.zone).strftime("%Y-%m-%dT%H:%M")


def _latency_figure(context: Context, taken: Percentiles | None) -> Figure:
    say = context.say
    label = say("p50 / p99 in ms")
    if taken is None:
        return Figure(label, "–", note=say("no live call since the start of this node"))
    is_today = context.now_s - taken.since_s < 24 * HOUR_S
    since = exact_time(taken.since_s, context.web.zone)[11 if is_today else 5 : 16]
    if taken.calls < _CALLS_MEANT:
        return Figure(
            label, "–", note=say("too few live calls since {time} on this node", time=since)
        )
    note = say(
        "of {count} live calls since {time}, on this node", count=grouped(taken.calls), time=since
    )
    shown = f"{_milliseconds(taken.half_ms)} / {_milliseconds(taken.most_ms)}"
    return Figure(label, shown, note=note)


def _milliseconds(value: float) -> str:
    return f"{value:.1f}" if value < 10 else grouped(round(value))


def _chart(context: Context, hours: Sequence[Row], now_s: int) -> Chart:
    say, zone = context.say, context.web.zone
    first = now_s - now_s % HOUR_S - 23 * HOUR_S
    labels = [
        datetime.fromtimestamp(first + index * HOUR_S, zone).strftime("%H:%M")
        for index in range(24)
    ]
    calls: defaultdict[str, list[int]] = defaultdict(lambda: [0] * 24)
    for start_s, operation, count, _ in hours:
        index = (start_s - first) // HOUR_S
        if 0 <= index < 24:
            calls[operation][index] += int(count)
    title = say("Charged calls by operation, last 24 h")
    return calls_chart(context, title, say("Hour"), labels, calls)


async def _top(context: Context) -> Table:
    say = context.say
    found = (await busiest_accounts(context))[:_TOP]
    most = max((int(calls) for _, calls, _ in found), default=1)
    names = await names_of(context.database, [account_id for account_id, _, _ in found])
    rows = [
        [
            Cell(names[account_id], href=address("/operator/account", id=account_id)),
            context.number(int(calls)),
            Cell("", share=round(100 * int(calls) / most)),
        ]
        for account_id, calls, _ in found
    ]
    return Table(
        [say("Account"), say("Calls"), ""],
        rows,
        Empty(
            say("No call was charged yesterday or today."),
            Link(say("Open an account"), "/operator/accounts"),
        ),
        title=say("Top accounts, yesterday and today"),
        is_ranked=True,
    )


def _reasons(context: Context, refused: Counter[str], now_s: int) -> Table:
    say = context.say
    since = _an_hour_ago(context, now_s)
    most = max(refused.values(), default=1)
    rows = [
        [
            Cell(named_reason(say, reason), "code", address(REQUESTS, reason=reason, since=since)),
            context.number(count),
            Cell("", share=round(100 * count / most)),
        ]
        for reason, count in refused.most_common(_TOP)
    ]
    return Table(
        [say("Reason"), say("Calls"), ""],
        rows,
        Empty(say("No call was refused in the last hour.")),
        title=say("Refusals by reason, last hour"),
        is_ranked=True,
    )
