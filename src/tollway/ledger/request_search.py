"""The calls that concern a shop or an order, found by their uses of grants or their waybills.

An index reads the uses of a grant and the waybills of an order newest first, so a page costs the
same however many there are. Two kinds of calls are not found: refused ones, which read nothing of a
shop, and reads of orders by their number, because requests are not stored.
"""

from collections.abc import Sequence
from heapq import merge

import msgspec
from sqlalchemy import Integer, bindparam, or_, select

from tollway.ledger.request_log import (
    CallFilter,
    LoggedCall,
    LogPage,
    by_request,
    first_id,
    no_later,
    paid_call,
    paid_columns,
    refused_call_of,
    refused_columns,
)
from tollway.store.database import Database, Row
from tollway.store.query import Query, equals, listed, pieces
from tollway.store.schema.carriers import waybill
from tollway.store.schema.consent import consent, consent_use
from tollway.store.schema.ledger import entry, refused_call

# How many of a shop's newest grants are searched, and how many calls of each a filter scans.
_GRANTS_MAX = 200
_CALLS_OF_GRANT_MAX = 512
_most = bindparam("most", type_=Integer)

_grants = (
    select(consent.c.owner_kind, consent.c.id, consent.c.account_id)
    .where(
        or_(consent.c.owner_kind == "shop", consent.c.owner_kind == "user"),
        consent.c.owner_id == bindparam("shop"),
    )
    .order_by(consent.c.granted_at_s.desc(), consent.c.id)
    .limit(_most)
)
_GRANTS = Query(_grants)
_GRANTS_OF_ACCOUNT = Query(lambda: _grants.where(consent.c.account_id == bindparam("of_account")))
_USES = Query(
    lambda: (
        select(consent_use.c.request_id, consent_use.c.at_ms, consent_use.c.operation)
        .where(
            equals(consent_use, owner_kind="kind", owner_id="shop", consent_id="grant"),
            consent_use.c.request_id < bindparam("before"),
            consent_use.c.request_id >= bindparam("since"),
        )
        .order_by(consent_use.c.request_id.desc())
        .limit(_most)
    )
)
_waybills = (
    select(waybill.c.request_id, waybill.c.asked_at_s * 1000, waybill.c.account_id, waybill.c.state)
    .where(
        waybill.c.order_sn == bindparam("order_sn"),
        waybill.c.request_id < bindparam("before"),
        waybill.c.request_id >= bindparam("since"),
    )
    .order_by(waybill.c.request_id.desc())
    .limit(_most)
)
_WAYBILLS = Query(_waybills)
_WAYBILLS_OF_ACCOUNT = Query(
    lambda: _waybills.where(waybill.c.account_id == bindparam("of_account"))
)
_listed = listed(64)
_PAID = Query(
    lambda: select(*paid_columns).where(
        entry.c.request_id.in_(_listed), or_(entry.c.kind == "charge", entry.c.kind == "hold")
    )
)
# Through the accounts, because the key of a refused call begins with one.
_REFUSED = Query(
    lambda: select(*refused_columns).where(
        refused_call.c.account_id == bindparam("of_account"),
        refused_call.c.request_id.in_(_listed),
    )
)


async def search_page(database: Database, wanted: CallFilter, size: int, before: str) -> LogPage:
    """The newest calls before an id that concern the shop or the order of a filter."""
    most = _CALLS_OF_GRANT_MAX if wanted.leaves_out else size + 1
    before = no_later(before, wanted.until_ms)
    values: dict[str, object] = {"before": before, "since": first_id(wanted.since_ms), "most": most}
    if wanted.order_sn:
        traces = await _of_order(database, wanted, values)
    else:
        traces = await _of_shop(database, wanted, values)
    passed = [each for each in await _calls(database, traces) if wanted.passes(each)]
    if len(passed) > size:
        return LogPage(passed[:size], passed[size - 1].request_id)
    return LogPage(passed, traces[-1].request_id if len(traces) >= most else "")


async def _of_order(
    database: Database, wanted: CallFilter, values: dict[str, object]
) -> list[LoggedCall]:
    values = {**values, "order_sn": wanted.order_sn}
    query = _WAYBILLS
    if wanted.account_id:
        query, values = _WAYBILLS_OF_ACCOUNT, {**values, "of_account": wanted.account_id}
    rows = await database.fetch_long(query, "log", **values)
    return [_trace_of_waybill(*row) for row in rows]


async def _of_shop(
    database: Database, wanted: CallFilter, values: dict[str, object]
) -> list[LoggedCall]:
    grants, named = _GRANTS, {"shop": wanted.shop, "most": _GRANTS_MAX}
    if wanted.account_id:
        grants, named = _GRANTS_OF_ACCOUNT, {**named, "of_account": wanted.account_id}
    most = int(str(values["most"]))
    newest: list[LoggedCall] = []
    for kind, grant, account_id in await database.fetch_all(grants, **named):
        its = {**values, "kind": kind, "shop": wanted.shop, "grant": grant}
        if len(newest) == most:
            # Older calls would not be shown, so most grants have nothing to read.
            its["since"] = newest[-1].request_id
        rows = await database.fetch_long(_USES, "log", **its)
        newest = _joined(newest, [_trace(row[0], row[1], account_id, row[2]) for row in rows], most)
    return newest


def _joined(
    newest: Sequence[LoggedCall], others: Sequence[LoggedCall], most: int
) -> list[LoggedCall]:
    """The newest calls of two sorted lists, without duplicates."""
    both = merge(newest, others, key=lambda call: call.request_id, reverse=True)
    return list({each.request_id: each for each in both}.values())[:most]


def _trace(request_id: str, at_ms: int, account_id: str, operation: str) -> LoggedCall:
    """What is known of a call whose entry and record are gone: that it succeeded, but not what it
    was charged."""
    return LoggedCall(request_id, at_ms, account_id, operation, "unknown", 0, "SUCCESS")


def _trace_of_waybill(request_id: str, at_ms: int, account_id: str, state: str) -> LoggedCall:
    trace = _trace(request_id, at_ms, account_id, "waybills")
    if state != "refused":
        return trace
    return msgspec.structs.replace(trace, outcome="released", code=None, reason="")


async def _calls(database: Database, traces: Sequence[LoggedCall]) -> list[LoggedCall]:
    """The calls in the same order, each completed from its entry or record."""
    rows = await _rows(database, _PAID, [each.request_id for each in traces])
    stored = [paid_call(row) for row in rows]
    charged = {each.request_id for each in stored if each.outcome == "charged"}
    for account_id in sorted({each.account_id for each in traces}):
        rest = [e.request_id for e in traces if e.account_id == account_id]
        rest = [each for each in rest if each not in charged]
        rows = await _rows(database, _REFUSED, rest, of_account=account_id)
        stored += [refused_call_of(row) for row in rows]
    known = by_request(stored)
    return [known.get(each.request_id, each) for each in traces]


async def _rows(
    database: Database, query: Query, request_ids: Sequence[str], **values: object
) -> list[Row]:
    rows: list[Row] = []
    for ids in pieces(request_ids, _listed):
        rows += await database.fetch_long(query, "log", **ids, **values)
    return rows
