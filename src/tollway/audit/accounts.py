"""Rows against their account: nothing belongs to an account that is not there."""

from collections.abc import Iterator

from sqlalchemy import Table, func, literal, select, union_all
from sqlalchemy.sql import Select

from tollway.audit.check import Breach, Check
from tollway.store.client_tables import client
from tollway.store.consent_tables import consent
from tollway.store.database import Row
from tollway.store.schema import account, balance, permission, token
from tollway.store.waybill_tables import waybill

# Entries are not among them: each has a balance, or the check of balances misses it.
_OF_AN_ACCOUNT = (token, client, permission, balance, consent, waybill)


def _orphans(table: Table) -> Select[tuple[object, ...]]:
    return (
        select(table.c.account_id, literal(table.name), func.count())
        .where(table.c.account_id.not_in(select(account.c.id)))
        .group_by(table.c.account_id)
    )


def _tell(row: Row) -> Iterator[Breach]:
    account_id, table, rows = row
    difference = f"rows of no account in table {table}: {rows}"
    yield Breach("account_missing", account_id, None, difference)


ACCOUNTS = Check(
    "accounts",
    "tokens, clients, permissions, balances, consents and waybills are of an account",
    account,
    union_all(*map(_orphans, _OF_AN_ACCOUNT)),
    _tell,
)
