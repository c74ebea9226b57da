"""Reads all rows of the ledger, and compares them with the model and with each other."""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import Table, select

from tests.ledger import ledger_calls
from tests.ledger.ledger_calls import Outcome, Wanted
from tests.ledger.ledger_model import LedgerModel
from tests.ledger.ledger_rows import Line
from tollway.audit.balances import BALANCES, CHARGED_ONCE, ENTRIES
from tollway.audit.check import Breach
from tollway.audit.holds import HOLDS, RESERVED_KEYS
from tollway.operations.product_analysis.schema import product
from tollway.store.database import Database, Reader
from tollway.store.query import Query
from tollway.store.schema.ledger import balance, entry, hold, idempotency_key, is_reserved


def _all(table: Table, *names: str) -> Query:
    return Query(select(*(table.c[name] for name in names)).order_by(*table.primary_key))


_BALANCES = _all(balance, "account_id", "unit", "amount", "held", "posted", "entries")
_ENTRIES = _all(entry, "account_id", "unit", "number", *Line._fields)
_HOLDS = _all(hold, "account_id", "id", "unit", "amount", "request_id", "token_id", "state")
_KEPT = Query(
    select(
        *(idempotency_key.c[name] for name in ("account_id", "key", "request_id", "at_ms")),
        is_reserved,
    )
)
_DEEDS = _all(product, "product_id")
Heard = Sequence[tuple[Wanted, Outcome]]
Lines = dict[tuple[str, str], list[Line]]


async def compare(reader: Reader, model: LedgerModel, heard: Heard) -> None:
    lines: Lines = defaultdict(list)
    for account_id, unit, number, *line in await reader.fetch_all(_ENTRIES):
        lines[account_id, unit].append(Line(*line))
        assert number == len(lines[account_id, unit]), "entries are numbered without gaps"
    balances = {(row[0], row[1]): row[2:] for row in await reader.fetch_all(_BALANCES)}
    _check_sums(balances, lines)
    _check_heard(lines, heard)
    assert balances == {
        of: (each.amount, each.held, each.posted, len(each.lines))
        for of, each in model.balances.items()
    }
    assert lines == {of: each.lines for of, each in model.balances.items()}
    assert {(row[0], row[1]): row[2:] for row in await reader.fetch_all(_HOLDS)} == {
        of: (each.unit, each.amount, each.request_id, each.token_id, each.state)
        for of, each in model.holds.items()
    }
    assert {(row[0], row[1]): row[2:] for row in await reader.fetch_all(_KEPT)} == {
        of: (each.request_id, each.at_ms, each.data is None) for of, each in model.kept.items()
    }
    assert {row[0] for row in await reader.fetch_all(_DEEDS)} == model.deeds


def _check_sums(balances: dict[tuple[str, str], tuple[int, ...]], lines: Lines) -> None:
    """What must hold of the rows whatever the model says."""
    for of, (amount, held, posted, _) in balances.items():
        bought = sum(each.amount for each in lines[of] if each.kind in ("top_up", "correction"))
        assert bought - posted - held == amount >= 0
        assert held >= 0
        before = 0
        for line in lines[of]:
            before += line.amount
            assert line.balance_after == before >= 0


def _check_heard(lines: Lines, heard: Heard) -> None:
    """The answers that callers got are what they paid: exactly one charge, or none."""
    charges: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    entered: set[str | None] = set()
    for (account_id, _), of_balance in lines.items():
        for line in of_balance:
            entered.add(line.request_id)
            if line.kind == "charge":
                charges[account_id, line.request_id].append(-line.amount)
    assert all(len(each) == 1 for each in charges.values()), "no call is charged twice"
    for call, outcome in heard:
        if outcome.charged:
            payer = (call.account_id, outcome.replay_of or call.request_id)
            assert charges[payer] == [outcome.charged]
        elif call.asked.what not in ledger_calls.ERRANDS:
            assert call.request_id not in entered, "what cost nothing left no entry"


async def breaches(database: Database) -> list[Breach]:
    """What the audit finds. There are no waybills here, so theirs would be lost."""
    found: list[Breach] = []
    for check in (BALANCES, ENTRIES, CHARGED_ONCE, HOLDS, RESERVED_KEYS):
        found += (await check.run(database, 0))[1]
    return found
