"""The calls of an account or of all, newest first: from entries and from refused calls.

A page reads a bounded number of rows from each source, whatever the filter, and says where the next
page continues: so it costs the same with ten rows as with ten million. Finding a rare reason may
take several pages.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Select, bindparam, case, or_, select

from tollway.store.database import Database, Row
from tollway.store.query import Query, equals
from tollway.store.schema.ledger import entry, hold, refused_call

# Rows that a page scans at most, when a filter excludes most of them.
SCANNED_MAX = 2000
# Stands for every reason but success; no reason has this name.
ANY_REFUSAL = "REFUSED"
# Sorts after every request id: those are hexadecimal.
AFTER_ALL = "~"
# An id begins with the time in microseconds.
_TIME_DIGITS = 13
# Calls overlap: the last eighth of what was read shows how far back the rest begins.
_LAST_SHARE = 8
_LAST_US = 16**_TIME_DIGITS - 1
# If a call has several rows, the later of these outcomes counts: a hold is settled sooner or later,
# and a call that was refused because the carrier was silent may then be charged.
_OUTCOMES = ("held", "released", "free", "refused", "charged")


class LoggedCall(msgspec.Struct, frozen=True):
    """One call of the log. A charge has code 0; a hold has no code yet. The outcome is `released`
    if what was held was given back and nothing else is known of the call, `unknown` if the amount
    charged is no longer stored."""

    request_id: str
    at_ms: int
    account_id: str
    operation: str
    outcome: str
    code: int | None
    reason: str
    amount: int = 0
    unit: str = ""
    # How many more calls like this were refused in the same minute, which are not listed.
    more: int = 0

    @property
    def known_amount(self) -> int | None:
        return None if self.outcome == "unknown" else self.amount


class CallFilter(NamedTuple):
    """Which calls are wanted; empty and None match everything. Times are in milliseconds."""

    account_id: str = ""
    operation: str = ""
    code: int | None = None
    reason: str = ""
    since_ms: int = 0
    until_ms: int | None = None
    # What was charged or is held.
    amount: int | None = None
    # Calls of a shop or order are found through other tables: see `request_search`.
    shop: str = ""
    order_sn: str = ""

    def passes(self, call: LoggedCall) -> bool:
        return (
            (not self.operation or call.operation == self.operation)
            and (self.code is None or call.code == self.code)
            and self._has_reason(call)
            and (self.amount is None or self.amount == call.known_amount)
        )

    def _has_reason(self, call: LoggedCall) -> bool:
        if self.reason == ANY_REFUSAL:
            return call.outcome == "refused"
        return not self.reason or call.reason == self.reason

    @property
    def leaves_out(self) -> bool:
        """Whether the filter may exclude calls after they are read."""
        return self != CallFilter(
            self.account_id,
            since_ms=self.since_ms,
            until_ms=self.until_ms,
            shop=self.shop,
            order_sn=self.order_sn,
        )

    @property
    def is_charged_only(self) -> bool:
        return self.code == 0 or self.reason == "SUCCESS" or bool(self.amount)

    @property
    def is_refused_only(self) -> bool:
        return (self.code is not None and self.code != 0) or self.reason not in ("", "SUCCESS")


class _Source(NamedTuple):
    """The calls read from one source, and the id down to which they are complete."""

    calls: Sequence[LoggedCall]
    whole_to: str


class LogPage(NamedTuple):
    """Calls, and the id before which the next page begins; empty at the end."""

    calls: Sequence[LoggedCall]
    before: str


def _within(column: ColumnElement[str]) -> tuple[ColumnElement[bool], ...]:
    return (column < bindparam("before"), column >= bindparam("since"))


# Asked for holds alone. What became of one may be in no other row: entries are kept for longer
# than the records of refused calls.
_hold_state = (
    select(hold.c.state).where(hold.c.request_id == entry.c.request_id).limit(1).scalar_subquery()
)
paid_columns = (
    entry.c.request_id,
    entry.c.at_ms,
    entry.c.account_id,
    entry.c.operation,
    entry.c.kind,
    entry.c.amount,
    entry.c.unit,
    case((entry.c.kind == "hold", _hold_state)),
)
refused_columns = (
    refused_call.c.request_id,
    refused_call.c.at_ms,
    refused_call.c.account_id,
    refused_call.c.operation,
    refused_call.c.code,
    refused_call.c.reason,
    refused_call.c.more,
)
_paid = select(*paid_columns).where(
    or_(entry.c.kind == "charge", entry.c.kind == "hold"), *_within(entry.c.request_id)
)
_refused = select(*refused_columns).where(refused_call.c.is_test == 0)


def _newest(statement: Select[tuple[object, ...]], *order: ColumnElement[object]) -> Query:
    return Query(statement.order_by(*order).limit(bindparam("most")))


_PAID = _newest(_paid, entry.c.request_id.desc())
# By time, because that index exists; an id begins with the same time.
_REFUSED = _newest(
    _refused.where(
        refused_call.c.at_ms <= bindparam("before_ms"),
        refused_call.c.at_ms >= bindparam("since_ms"),
        refused_call.c.request_id < bindparam("before"),
    ),
    refused_call.c.at_ms.desc(),
    refused_call.c.request_id.desc(),
)
_REFUSED_OF_ACCOUNT = _newest(
    _refused.where(
        refused_call.c.account_id == bindparam("of_account"), *_within(refused_call.c.request_id)
    ),
    refused_call.c.request_id.desc(),
)
# The newest entries of one balance: an account's few balances are read one by one.
_PAID_OF_BALANCE = _newest(
    _paid.where(equals(entry, account_id="of_account", unit="of_unit")),
    entry.c.number.desc(),
)


async def log_page(
    database: Database, wanted: CallFilter, units: Sequence[str], size: int, before: str = ""
) -> LogPage:
    """The newest calls before an id. `units` are the balances of the account, if one is wanted."""
    before = no_later(before, wanted.until_ms)
    # More than `size`: a held call has two rows, and some calls are left to the next page.
    page = await _read_page(database, wanted, units, size, before, 3 * size + 1)
    if len(page.calls) == size or not page.before:
        return page
    # The filter excluded most of what was read.
    return await _read_page(database, wanted, units, size, before, SCANNED_MAX)


async def _read_page(
    database: Database,
    wanted: CallFilter,
    units: Sequence[str],
    size: int,
    before: str,
    most: int,
) -> LogPage:
    """A page from at most `most` rows of each source."""
    values: dict[str, Any] = {
        "before": before,
        "since": first_id(wanted.since_ms),
        "most": most,
    }
    sources: list[_Source] = []
    if not wanted.is_refused_only:
        sources += await _paid_calls(database, wanted, units, values)
    if not wanted.is_charged_only:
        sources.append(await _refused_calls(database, wanted, values, before))
    # Past the end of a truncated source, its calls would be missing from the page.
    whole_to = max((each.whole_to for each in sources), default="")
    found = by_request(chain.from_iterable(each.calls for each in sources))
    seen = sorted((each for each in found if each >= whole_to), reverse=True)
    passed = [found[each] for each in seen if wanted.passes(found[each])]
    if len(passed) > size:
        return LogPage(passed[:size], passed[size - 1].request_id)
    return LogPage(passed, whole_to)


async def _paid_calls(
    database: Database, wanted: CallFilter, units: Sequence[str], values: dict[str, Any]
) -> list[_Source]:
    if not wanted.account_id:
        rows = await database.fetch_long(_PAID, "log", **values)
        return [_by_id([paid_call(row) for row in rows], values["most"])]
    found: list[_Source] = []
    for unit in units:
        rows = await database.fetch_long(
            _PAID_OF_BALANCE, "log", of_account=wanted.account_id, of_unit=unit, **values
        )
        calls = [paid_call(row) for row in rows]
        found.append(_by_number(calls, values["most"], values["before"]))
    return found


async def _refused_calls(
    database: Database, wanted: CallFilter, values: dict[str, Any], before: str
) -> _Source:
    if wanted.account_id:
        rows = await database.fetch_long(
            _REFUSED_OF_ACCOUNT, "log", of_account=wanted.account_id, **values
        )
    else:
        rows = await database.fetch_long(
            _REFUSED,
            "log",
            most=values["most"],
            since_ms=wanted.since_ms,
            before=before,
            before_ms=time_of(before),
        )
    return _by_id([refused_call_of(row) for row in rows], values["most"])


def _by_id(calls: Sequence[LoggedCall], most: int) -> _Source:
    """A source of calls that were read in the order of their ids."""
    is_cut = len(calls) >= most
    return _Source(calls, min(each.request_id for each in calls) if is_cut else "")


def _by_number(calls: Sequence[LoggedCall], most: int, before: str) -> _Source:
    """A source of entries, read in the order of their numbers. An entry made long after its call
    began does not show that all ids down to it were read; the last entries read show how far."""
    whole_to = _by_id(calls, most).whole_to
    if whole_to:
        last = calls[-max(1, most // _LAST_SHARE) :]
        end = max(max(each.request_id, first_id(each.at_ms)) for each in last)
        # If all of them were made late, the log must still make progress.
        whole_to = end if end < before else whole_to
    return _Source(calls, whole_to)


def by_request(calls: Iterable[LoggedCall]) -> dict[str, LoggedCall]:
    """The outcome of each call by its id, from the row that says most about it."""
    ranked = sorted(calls, key=lambda call: _OUTCOMES.index(call.outcome))
    return {each.request_id: each for each in ranked}


def first_id(at_ms: int) -> str:
    """A lower bound of all ids from this time on."""
    return f"{min(at_ms * 1000, _LAST_US):0{_TIME_DIGITS}x}"


def time_of(request_id: str) -> int:
    """When a request began, by its id; the far future if the text is no id."""
    try:
        return int(request_id[:_TIME_DIGITS], 16) // 1000
    except ValueError:
        return 2**62


def no_later(before: str, until_ms: int | None) -> str:
    """The id before which a page begins; empty means the newest."""
    before = before or AFTER_ALL
    return before if until_ms is None else min(before, first_id(until_ms))


def paid_call(row: Row) -> LoggedCall:
    request_id, at_ms, account_id, operation, kind, amount, unit, hold_state = row
    if kind == "hold" and hold_state == "released":
        return LoggedCall(request_id, at_ms, account_id, operation or "", "released", None, "")
    if kind == "hold" and hold_state != "captured":
        return LoggedCall(
            request_id, at_ms, account_id, operation or "", "held", None, "", -amount, unit
        )
    return LoggedCall(
        request_id, at_ms, account_id, operation or "", "charged", 0, "SUCCESS", -amount, unit
    )


def refused_call_of(row: Row) -> LoggedCall:
    request_id, at_ms, account_id, operation, code, reason, more = row
    outcome = "refused" if code else "free"
    return LoggedCall(request_id, at_ms, account_id, operation, outcome, code, reason, more=more)
