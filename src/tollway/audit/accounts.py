"""Rows against their account, which must exist; entries against the calls and tokens that made
them; caps against their counts; refused calls against charges, which must not exist."""

from sqlalchemy import Table, and_, exists, func, literal, or_, select, union_all
from sqlalchemy.sql import Select

from tollway.audit.check import check_each
from tollway.contract.reasons import Reason
from tollway.store.query import alike
from tollway.store.schema.carriers import waybill
from tollway.store.schema.consent import consent
from tollway.store.schema.ledger import (
    account,
    balance,
    client,
    entry,
    permission,
    refused_call,
    token,
    token_day,
)

# Without the entries: each has a balance, or the check of balances reports it.
_OF_AN_ACCOUNT = (token, client, permission, balance, consent, waybill)


def _orphans(table: Table) -> Select[tuple[object, ...]]:
    return (
        select(table.c.account_id, literal(table.name).label("table"), func.count().label("rows"))
        .where(table.c.account_id.not_in(select(account.c.id)))
        .group_by(table.c.account_id)
    )


ACCOUNTS = check_each(
    "accounts",
    "tokens, clients, permissions, balances, consents and waybills are of an account",
    account,
    union_all(*map(_orphans, _OF_AN_ACCOUNT)),
    "account_missing",
    "rows of no account in table {table}: {rows}",
)
_is_of_a_call = or_(*(entry.c.kind == each for each in ("charge", "hold", "release")))
CALLERS = check_each(
    "callers",
    "what a call was charged has its request, and is on the account of its token",
    entry,
    select(entry.c.account_id, entry.c.unit, entry.c.number, entry.c.request_id, entry.c.token_id)
    # Outer, because tokens that clients obtained are deleted a while after their end.
    .select_from(entry.outerjoin(token, token.c.id == entry.c.token_id))
    .where(
        or_(
            and_(_is_of_a_call, or_(entry.c.request_id.is_(None), entry.c.token_id.is_(None))),
            token.c.account_id != entry.c.account_id,
        )
    ),
    "caller_differs",
    "entry {number}: no call {request_id} with token {token_id} can have been charged to it",
)

CAPS = check_each(
    "caps",
    "no token has spent more in a day than its cap",
    token_day,
    select(token_day.c.token_id, token.c.account_id, token_day.c.credits, token_day.c.calls)
    .join(token, token.c.id == token_day.c.token_id)
    .where(
        or_(
            token_day.c.credits > token.c.credits_per_day, token_day.c.calls > token.c.calls_per_day
        )
    ),
    "cap_exceeded",
    "token {token_id} spent {credits} credits and {calls} calls in a day",
)

CAPS_COUNTED = check_each(
    "caps_counted",
    "a token with a cap has a count of its day",
    token,
    select(token.c.id, token.c.account_id).where(
        or_(token.c.credits_per_day.is_not(None), token.c.calls_per_day.is_not(None)),
        ~exists().where(token_day.c.token_id == func.coalesce(token.c.counted_with, token.c.id)),
    ),
    "cap_uncounted",
    "token {id} has a cap, but nothing counts what it spends: its calls fail",
)

_UNKNOWN_THEN = [Reason.CARRIER_SILENT.name, Reason.COMMIT_IN_DOUBT.name, Reason.TIMED_OUT.name]
_is_charged = exists().where(
    and_(alike(entry, refused_call, "request_id", "account_id"), entry.c.kind == "charge")
)


NOT_CHARGED = check_each(
    "not_charged",
    "a call reported as not charged has no charge",
    refused_call,
    select(
        refused_call.c.account_id,
        refused_call.c.request_id,
        refused_call.c.code,
        refused_call.c.reason,
    ).where(*(refused_call.c.reason != each for each in _UNKNOWN_THEN), _is_charged),
    "charged_and_not",
    "request {request_id} was charged, and reported as not charged ({code} {reason})",
)
