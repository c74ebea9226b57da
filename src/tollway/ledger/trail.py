"""The trail of operators' acts: who did what, when, and what was before and after.

The function that does an act records it in its own transaction, so that there is neither an act
without its record nor a record without its act. Records are a hash chain: each has a hash over
itself and the previous hash, so the audit finds one that was changed or removed later. Records
contain only what lists and pages show, never a secret.
"""

import hashlib
from collections.abc import Sequence
from itertools import chain

import msgspec
from sqlalchemy import Integer, bindparam, select

from tollway.ledger.runtime import Runtime
from tollway.store.database import Database, Reader, Transaction
from tollway.store.query import Query, equals, insert_row
from tollway.store.schema.ledger import operator_act

_FIRST_HASH = bytes(32)
_encoder = msgspec.json.Encoder(order="deterministic")


class OperatorAct(msgspec.Struct, frozen=True):
    """One act; `before` and `after` are JSON, None where there was nothing or is nothing."""

    number: int
    at_ms: int
    by: str
    act: str
    subject: str
    before: str | None
    after: str | None
    hash: bytes


_COLUMNS = tuple(operator_act.c[name] for name in OperatorAct.__struct_fields__)
_LAST = Query(
    lambda: (
        select(operator_act.c.number, operator_act.c.hash)
        .order_by(operator_act.c.number.desc())
        .limit(1)
    )
)
_APPEND = Query(lambda: insert_row(operator_act))
_newest = (
    select(*_COLUMNS)
    .where(operator_act.c.number < bindparam("before_number"))
    .order_by(operator_act.c.number.desc())
    .limit(bindparam("most"))
)
_NEWEST = Query(_newest)
# Two queries, each along an index: one with OR would read the whole trail.
_NEWEST_OF = (
    Query(lambda: _newest.where(operator_act.c.subject == bindparam("of"))),
    Query(lambda: _newest.where(operator_act.c.by == bindparam("of"))),
)
_NEWEST_ON = Query(
    lambda: (
        select(*_COLUMNS)
        .where(equals(operator_act, subject="subject", act="act"))
        .order_by(operator_act.c.number.desc())
        .limit(bindparam("most", type_=Integer))
    )
)


async def record_act(
    transaction: Transaction,
    runtime: Runtime,
    act: str,
    subject: str,
    *,
    before: object = None,
    after: object = None,
) -> None:
    """Records what the operator of `runtime` does in this transaction, as its last statement; does
    nothing if no operator acts, as in the demo world.

    `act` is like `token issue`, `subject` like `account acc_1` or `carrier YTO`.
    """
    if not runtime.by:
        return
    # Always a transaction's last lock, which prevents deadlocks.
    await transaction.lock_names(["trail"])
    row = await transaction.fetch_one(_LAST)
    number, previous = (0, _FIRST_HASH) if row is None else (int(row[0]), bytes(row[1]))
    facts = (
        number + 1,
        runtime.at_ms(),
        runtime.by,
        act,
        subject,
        None if before is None else _encoder.encode(before).decode(),
        None if after is None else _encoder.encode(after).decode(),
    )
    digest = hashlib.sha256(previous + msgspec.json.encode(facts)).digest()
    await transaction.execute(_APPEND, **msgspec.structs.asdict(OperatorAct(*facts, hash=digest)))


async def note_act(
    database: Database, runtime: Runtime, act: str, subject: str, after: object = None
) -> None:
    """Records an act that is more than one transaction, such as an import: once before it begins,
    so that a killed one is recorded too, and again with what it did."""
    await database.write(
        lambda transaction: record_act(transaction, runtime, act, subject, after=after)
    )


async def newest_acts_on(
    reader: Reader, subject: str, act: str, most: int
) -> Sequence[OperatorAct]:
    """The newest acts of one kind on a subject; cheap enough for a transaction that holds locks."""
    rows = await reader.fetch_all(_NEWEST_ON, subject=subject, act=act, most=most)
    return [OperatorAct(*row) for row in rows]


async def newest_acts(
    reader: Reader, most: int, *, of: str = "", before_number: int = 2**62
) -> Sequence[OperatorAct]:
    """The newest acts, of all or of one subject or operator."""
    values = {"most": most, "before_number": before_number}
    if not of:
        return [OperatorAct(*row) for row in await reader.fetch_all(_NEWEST, **values)]
    found = [await reader.fetch_all(each, of=of, **values) for each in _NEWEST_OF]
    # By number: who acts on themselves is in both.
    acts = {row[0]: OperatorAct(*row) for row in chain.from_iterable(found)}
    return [acts[number] for number in sorted(acts, reverse=True)[:most]]
