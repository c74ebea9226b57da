"""How long the ledger's own rows are kept: entries, reads under a grant, calls not charged."""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import BigInteger, bindparam, func, select

from tollway.ledger import consent_uses, refused_calls
from tollway.ledger.archiving import OLD_BALANCES, OLD_ENTRIES, archive_entries, archive_month
from tollway.ledger.charges import GrantKey
from tollway.operations.subject import Removal, Retained
from tollway.store.database import Database, Transaction
from tollway.store.months import Month
from tollway.store.query import Query
from tollway.store.schema.consent import consent_use
from tollway.store.schema.ledger import entry, refused_call

_from_ms, _to_ms = (bindparam(name, type_=BigInteger) for name in ("from_ms", "to_ms"))
_REFUSED_OF_MONTH = Query(
    lambda: (
        select(func.count())
        .select_from(refused_call)
        .where(refused_call.c.at_ms >= _from_ms, refused_call.c.at_ms < _to_ms)
    )
)


async def _entry_removals(database: Database, before_ms: int) -> Sequence[Removal]:
    balances = await database.fetch_long(OLD_BALANCES, before_ms=before_ms)
    return [partial(_archive, account, unit, before_ms) for account, unit in balances]


async def _archive(
    account_id: str, unit: str, before_ms: int, transaction: Transaction, most: int
) -> int:
    return await archive_entries(transaction, account_id, unit, before_ms, most)


async def _read_removals(database: Database, before_ms: int) -> Sequence[Removal]:
    grants = await database.fetch_long(consent_uses.OLD_GRANTS, before_ms=before_ms)
    return [partial(_remove_reads, GrantKey(*grant), before_ms) for grant in grants]


async def _remove_reads(
    grant: GrantKey, before_ms: int, transaction: Transaction, most: int
) -> int:
    return await consent_uses.remove_old(transaction, grant, before_ms, most)


async def _refused_removals(_: Database, before_ms: int) -> Sequence[Removal]:
    return [partial(_remove_refused, before_ms)]


async def _remove_refused(before_ms: int, transaction: Transaction, most: int) -> int:
    return await refused_calls.remove_old(transaction, before_ms, most)


async def _count(query: Query, database: Database, before_ms: int) -> int:
    ((rows,),) = await database.fetch_long(query, before_ms=before_ms)
    return int(rows)


async def _archive_month(transaction: Transaction, month: Month) -> int | None:
    return await archive_month(transaction, month.start_s * 1000, month.end_s * 1000)


async def _reads_of_month(transaction: Transaction, month: Month) -> int | None:
    return await consent_uses.uses_of_month(transaction, month.start_s * 1000, month.end_s * 1000)


async def _refused_of_month(transaction: Transaction, month: Month) -> int:
    row = await transaction.fetch_one(
        _REFUSED_OF_MONTH, from_ms=month.start_s * 1000, to_ms=month.end_s * 1000
    )
    return int(row[0]) if row else 0


LEDGER_ROWS = (
    Retained(
        kind="entries",
        keep_days=lambda settings: settings.keep_entries_days,
        table=entry,
        removals=_entry_removals,
        count_old=partial(_count, OLD_ENTRIES),
        forget_month=_archive_month,
    ),
    # After the entries of their charges.
    Retained(
        kind="reads",
        keep_days=lambda settings: settings.keep_entries_days,
        table=consent_use,
        removals=_read_removals,
        count_old=partial(_count, consent_uses.OLD_USES),
        forget_month=_reads_of_month,
    ),
    Retained(
        kind="receipts",
        keep_days=lambda settings: settings.receipt_days,
        table=refused_call,
        removals=_refused_removals,
        count_old=partial(_count, refused_calls.OLD_REFUSED),
        forget_month=_refused_of_month,
    ),
)
