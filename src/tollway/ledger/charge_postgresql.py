"""Charging on a database that several gateways share: a whole batch in one round trip.

A function in the database (`tollway_charge`, in the baseline's `charging.sql`) does what
`charge_transaction.py` does, and counts what all nodes have admitted, by the database's own clock.
Acts need several round trips: they run in a transaction, which takes the same locks first.

A node is notified of a change a moment after its commit. So the statement that charges also
compares the version of the directory: no call is charged whose token was revoked before it came in.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from time import monotonic_ns
from typing import Any, TypeVar

from msgspec.structs import replace
from sqlalchemy import Select, bindparam, func, literal_column, select, text

from tollway.ledger.charge_transaction import (
    AlreadyAnswered,
    ChargeResults,
    act_result,
    post_charges,
)
from tollway.ledger.charges import (
    ActResult,
    BusyError,
    Charge,
    IdempotencyKey,
    NoCapacityError,
    OutdatedCallerError,
    OverLimitError,
    ShortageError,
)
from tollway.ledger.idempotency import KEPT_MS, KeptAnswer
from tollway.ledger.joint_acts import alone, post_joint
from tollway.ledger.token_limits import lock_days
from tollway.store.cache_versions import SERVER_DIRECTORY
from tollway.store.clock import SERVER_MS, common_ms
from tollway.store.database import Database, Row, StoreLockedError, Transaction
from tollway.store.query import Query
from tollway.store.schema.database import version

T = TypeVar("T")
Key = tuple[str, str]
_PACKED_ON_LOOP_BYTES = 16 * 1024
# Each act that is done alone holds the locks of the whole batch for several more round trips.
ALONE_MAX = 16
# In the order of the functions' parameters.
_LOCKS = ("balance_accounts", "balance_units", "window_accounts", "window_operations")
_COLUMNS = (
    *("accounts", "units", "amounts", "operations", "request_ids", "token_ids"),
    *("of_balance", "of_window", "limits", "owner_kinds", "owner_ids", "consent_ids"),
    *("replays_of", "records", "keys", "fingerprints", "answers", "kept_ms", "waits"),
)


def _lock() -> Select[Any]:
    wait = select(
        func.current_setting("lock_timeout").label("usual"),
        func.set_config("lock_timeout", bindparam("wait_ms"), True).label("own"),
    ).subquery("wait")
    return select(
        func.tollway_lock(*map(bindparam, _LOCKS)),
        SERVER_MS,
        select(literal_column(SERVER_DIRECTORY)).select_from(version).scalar_subquery(),
        func.set_config("lock_timeout", wait.c.usual, True),
    )


# Waits for each lock for so many milliseconds (0: without an end); what follows waits as usual.
_LOCK = Query(_lock)
_VALUES = ", ".join(f":{name}" for name in _LOCKS + _COLUMNS)
_CHARGED = f"SELECT * FROM tollway_charge({_VALUES})"  # noqa: S608 - names of parameters
_CHARGE = Query(lambda: text(_CHARGED))
# Charges nothing unless all callers are known under the current version of the directory; otherwise
# it returns that version, as if it were the detail of a charge.
_IS_OUTDATED = f"{SERVER_DIRECTORY} <> ANY (CAST(:directories AS bigint[]))"
_IF_CURRENT = (
    f" WHERE (SELECT {_IS_OUTDATED} FROM version) IS NOT TRUE "  # noqa: S608 - no values
    f"UNION ALL SELECT 0, 'outdated', {SERVER_DIRECTORY}, NULL, NULL, NULL "
    f"FROM version WHERE {_IS_OUTDATED}"
)
_CHARGE_IF_CURRENT = Query(lambda: text(_CHARGED + _IF_CURRENT))
# The same, and waits for each lock for so many milliseconds (0: without an end). That must be set
# before the function begins, so its last parameter needs it.
_CHARGE_WAITING = Query(
    lambda: text(
        "SELECT charged.* FROM set_config('lock_timeout', :wait_ms, true) AS patience, "  # noqa: S608
        f"tollway_charge({_VALUES} AND patience IS NOT NULL) AS charged{_IF_CURRENT}"
    )
)
# Posts charges, and returns those that were not posted, counted from 1. A row for 0 says that none
# was, because some callers are outdated.
Ask = Callable[[Sequence[Charge]], Awaitable[Sequence[Row]]]


async def post_waiting_for_locks(
    database: Database, charges: Sequence[Charge], wait_ms: int = 0
) -> ChargeResults:
    """Does what `post_charges` does with charges that have no act, in the same order. Those whose
    locks it waits for in vain get BusyError."""

    async def ask(run: Sequence[Charge]) -> Sequence[Row]:
        try:
            return await database.write_statement(
                _CHARGE_WAITING, **await _packed(run), waits=True, wait_ms=str(wait_ms)
            )
        except StoreLockedError:
            return _busy(range(1, len(run) + 1))

    return await _post(ask, charges)


async def post_unless_locked(database: Database, charges: Sequence[Charge]) -> ChargeResults:
    """The same without waiting for locks: a charge whose rows are locked gets BusyError."""

    async def ask(run: Sequence[Charge]) -> Sequence[Row]:
        try:
            return await database.write_statement(
                _CHARGE_IF_CURRENT, **await _packed(run), waits=False
            )
        except StoreLockedError:
            # Nothing was done. The only row lock that SKIP LOCKED cannot skip is that of a key
            # under which another transaction is storing an answer: so retry the charges without a
            # key (those with one come last). If none has a key, a whole table is locked.
            others = [charge for charge in run if charge.idempotency_key is None]
            others = others if len(others) < len(run) else []
            rows = await ask(others) if others else ()
            if _current_of(rows) is not None:
                return rows
            return [*rows, *_busy(range(len(others) + 1, len(run) + 1))]

    return await _post(ask, charges)


async def _post(ask: Ask, charges: Sequence[Charge]) -> ChargeResults:
    # As in `post_charges`, charges without a key come first.
    order = sorted(
        range(len(charges)), key=lambda position: charges[position].idempotency_key is not None
    )
    results: ChargeResults = {}
    pieces = deque(_without_twins(charges, order))
    was_any_posted = False
    while pieces:
        positions = pieces.popleft()
        asked_ns = monotonic_ns()
        try:
            rows = await ask([charges[position] for position in positions])
        except Exception as error:
            if not was_any_posted:
                raise
            # The earlier pieces are committed: only this one and the later ones have failed.
            failed = chain(positions, *pieces)
            return results | dict.fromkeys(failed, error)
        current = _current_of(rows)
        if current is None:
            was_any_posted = True
            for nth, *outcome in rows:
                results[positions[nth - 1]] = _error_of(outcome, asked_ns)
            continue
        results |= _outdated(charges, positions, current)
        others = [position for position in positions if position not in results]
        if others:
            pieces.appendleft(others)
    return results


def _busy(numbers: Iterable[int]) -> list[Row]:
    return [(nth, "busy", None) for nth in numbers]


def _current_of(rows: Sequence[Row]) -> int | None:
    """The current version of the directory, if some callers are outdated."""
    return rows[0][2] if rows and rows[0][0] == 0 else None


def _outdated(
    charges: Sequence[Charge], positions: Iterable[int], current: int
) -> dict[int, ActResult | Exception]:
    """Those of some charges whose callers are known under another version than the current one."""
    return {
        position: OutdatedCallerError()
        for position in positions
        if charges[position].directory not in (None, current)
    }


async def post_acts(
    transaction: Transaction, charges: Sequence[Charge], wait_ms: int = 0
) -> ChargeResults:
    """Posts charges that have acts or caps, after locking all that they need. Raises BusyError if
    it waits for one of these locks in vain (0: without an end).

    If too many must be done alone, the last of them get NoCapacityError and are not tried.
    """
    try:
        rows = await transaction.fetch_all(_LOCK, **_locks(charges), wait_ms=str(wait_ms))
    except StoreLockedError as error:
        raise BusyError from error
    ((_, now_ms, current, _),) = rows
    await lock_days(transaction, (each.token_id for each in charges if each.cap is not None))
    results: ChargeResults = _outdated(charges, range(len(charges)), current)
    positions = [position for position in range(len(charges)) if position not in results]
    joint = [charges[position] for position in positions]
    found = await post_joint(transaction, joint, partial(_pay, transaction))
    results |= {positions[nth]: result for nth, result in found.items()}
    rest = [position for position in range(len(charges)) if position not in results]
    # Like the database function: in the order of the keys, by the database's clock.
    order = sorted(rest[:ALONE_MAX], key=lambda position: _key(charges[position]))
    if order and results:
        # Not earlier than the charges that the function has just posted.
        now_ms = await common_ms(transaction, now_ms)
    posted = [replace(_counted(alone(charges[position])), at_ms=now_ms) for position in order]
    done = await post_charges(transaction, posted)
    results |= {order[nth]: result for nth, result in done.items()}
    return results | {position: NoCapacityError() for position in rest[ALONE_MAX:]}


async def _pay(transaction: Transaction, owed: Sequence[Charge]) -> ChargeResults:
    """Debits charges, counts them against their limits and records them for the owners of grants,
    in one round trip."""
    asked_ns = monotonic_ns()
    rows = await transaction.fetch_all(_CHARGE, **_columns(owed), waits=True) if owed else ()
    return {nth - 1: _error_of(outcome, asked_ns) for nth, *outcome in rows}


def _counted(charge: Charge) -> Charge:
    """The charge with an act that first counts the call against its limit.

    If the act fails, its rollback undoes the count too.
    """
    if charge.limit is None:
        return charge
    free = replace(charge, amount=0, act=None, grant=None, idempotency_key=None, cap=None)

    async def act_if_admitted(transaction: Transaction, posted: Charge) -> ActResult:
        asked_ns = monotonic_ns()
        for _, *outcome in await transaction.fetch_all(_CHARGE, **_columns([free]), waits=True):
            raise _error_of(outcome, asked_ns)
        return await act_result(transaction, replace(posted, act=charge.act))

    return replace(charge, act=act_if_admitted)


def _without_twins(charges: Sequence[Charge], order: Iterable[int]) -> Iterator[list[int]]:
    """Splits a batch where a key occurs again: the second call must find the answer of the first.

    That is rare: almost always the whole batch is one piece.
    """
    run: list[int] = []
    seen: set[Key] = set()
    for position in order:
        if charges[position].idempotency_key is not None:
            key = _key(charges[position])
            if key in seen:
                yield run
                run, seen = [], set()
            seen.add(key)
        run.append(position)
    yield run


def _key(charge: Charge) -> Key:
    return charge.account_id, "" if charge.idempotency_key is None else charge.idempotency_key.key


def _balances(charges: Iterable[Charge]) -> list[Key]:
    # Even if nothing is owed, an act may end a hold, which locks the balance first.
    owing = (each for each in charges if each.amount or each.act is not None)
    return sorted({(each.account_id, each.unit) for each in owing})


def _windows(charges: Iterable[Charge]) -> list[Key]:
    return sorted({(each.account_id, each.operation) for each in charges if each.limit is not None})


def _locks(charges: Sequence[Charge]) -> dict[str, object]:
    balances, windows = _balances(charges), _windows(charges)
    return {
        "balance_accounts": [account_id for account_id, _ in balances],
        "balance_units": [unit for _, unit in balances],
        "window_accounts": [account_id for account_id, _ in windows],
        "window_operations": [operation for _, operation in windows],
    }


async def _packed(charges: Sequence[Charge]) -> dict[str, object]:
    """The columns of a batch. A thread packs and seals large answers: those of a whole batch would
    block the event loop for a tenth of a second."""
    keys = [each.idempotency_key for each in charges if each.idempotency_key is not None]
    if sum(len(each.data or b"") for each in keys) > _PACKED_ON_LOOP_BYTES:
        columns = await asyncio.to_thread(_columns, charges)
    else:
        columns = _columns(charges)
    directories = {each.directory for each in charges if each.directory is not None}
    return columns | {"directories": list(directories)}


def _columns(charges: Sequence[Charge]) -> dict[str, object]:
    nth_balance = {key: nth for nth, key in enumerate(_balances(charges), 1)}
    nth_window = {key: nth for nth, key in enumerate(_windows(charges), 1)}
    grants = [each.grant for each in charges]
    keys = [each.idempotency_key for each in charges]
    return {
        **_locks(charges),
        "accounts": [each.account_id for each in charges],
        "units": [each.unit for each in charges],
        "amounts": [each.amount for each in charges],
        "operations": [each.operation for each in charges],
        "request_ids": [each.request_id for each in charges],
        "token_ids": [each.token_id for each in charges],
        "of_balance": [
            nth_balance[each.account_id, each.unit] if each.amount else 0 for each in charges
        ],
        "of_window": [
            0 if each.limit is None else nth_window[each.account_id, each.operation]
            for each in charges
        ],
        "limits": [each.limit for each in charges],
        "owner_kinds": _if_any(grants, lambda grant: grant.owner_kind),
        "owner_ids": _if_any(grants, lambda grant: grant.owner_id),
        "consent_ids": _if_any(grants, lambda grant: grant.consent_id),
        "replays_of": _if_any([each.replay_of for each in charges], str),
        "records": _if_any([each.records for each in charges], int),
        "keys": _if_any(keys, lambda idempotency_key: idempotency_key.key),
        "fingerprints": _if_any(keys, lambda idempotency_key: idempotency_key.fingerprint),
        "answers": _if_any(keys, _sealed),
        "kept_ms": KEPT_MS,
    }


def _if_any(given: Sequence[T | None], part: Callable[[T], object]) -> list[object] | None:
    """An optional column; None if no charge has a value, which saves the database the work."""
    column = [None if each is None else part(each) for each in given]
    return column if any(each is not None for each in given) else None


def _sealed(idempotency_key: IdempotencyKey) -> bytes:
    assert idempotency_key.data is not None
    return idempotency_key.seal(idempotency_key.data)


def _error_of(row: Sequence[Any], asked_ns: int) -> Exception:
    outcome, detail, *kept = row
    if outcome == "busy":
        return BusyError()
    if outcome == "kept":
        return AlreadyAnswered(KeptAnswer(*kept))
    if outcome == "throttled":
        # The database counts from a moment between the request and now.
        return OverLimitError(detail / 1_000_000, asked_ns + detail * 1000)
    return ShortageError(detail)
