"""The codes of a second factor: as RFC 6238 says, and each accepted once."""

import asyncio
import time
from itertools import count
from pathlib import Path

import pytest

from tests.support.ledger import RUNTIME
from tests.support.second_factors import SEALER, new_factor
from tests.support.stores import Store
from tollway.identity import second_factor
from tollway.identity.second_factor import (
    RECOVERY_CODES,
    STEP_S,
    Holder,
    begin_factor,
    code_at,
    confirm_factor,
    end_factor,
    find_factor,
    use_code,
)
from tollway.ledger import LedgerError
from tollway.ledger.trail import record_act
from tollway.store.database import Database

_numbers = count(1)


# The vectors of appendix B, of whose eight digits a device shows the last six.
@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("at_s", "code"),
    [
        (59, "94287082"),
        (1111111109, "07081804"),
        (1111111111, "14050471"),
        (1234567890, "89005924"),
        (2000000000, "69279037"),
        (20000000000, "65353130"),
    ],
)
def test_codes_are_those_of_the_standard(at_s: int, code: str) -> None:
    assert code_at(b"12345678901234567890", at_s // STEP_S) == code[-6:]


@pytest.fixture
def own_store(tmp_path: Path) -> Store:
    return Store(tmp_path / "tollway.db")


async def _with_factor(database: Database) -> tuple[Holder, bytes, list[str], int]:
    """A person with a second factor that was confirmed at a step of time."""
    number = next(_numbers)
    holder, step = Holder("shop", f"{number}", f"shop{number}"), int(time.time()) // STEP_S
    secret, codes = await new_factor(database, holder, step)
    assert len(set(codes)) == RECOVERY_CODES
    return holder, secret, codes, step


async def test_a_code_counts_around_its_half_minute_and_only_once(own_database: Database) -> None:
    holder, secret, _, step = await _with_factor(own_database)

    async def used(of_step: int, at_step: int) -> bool:
        code = code_at(secret, of_step)
        return await use_code(own_database, SEALER, holder, code, at_step * STEP_S)

    assert not await used(step, step)  # It confirmed the factor.
    assert not await used(step + 10, step + 8)
    assert not await used(step + 10, step + 12)
    assert await used(step + 10, step + 9)
    assert not await used(step + 10, step + 9)
    assert not await used(step + 9, step + 9)  # An older one, after a newer one.
    assert await used(step + 20, step + 21)


async def test_one_code_at_the_same_moment_is_accepted_once(own_database: Database) -> None:
    holder, secret, codes, step = await _with_factor(own_database)
    for typed in (code_at(secret, step + 1), codes[0]):
        tries = (
            use_code(own_database, SEALER, holder, typed, step * STEP_S + STEP_S) for _ in range(5)
        )
        assert sorted(await asyncio.gather(*tries)) == [False] * 4 + [True]


async def test_a_recovery_code_is_read_as_people_type_it_and_is_of_one_person(
    own_database: Database,
) -> None:
    holder, _, codes, step = await _with_factor(own_database)
    other, _, _, _ = await _with_factor(own_database)
    now_s = step * STEP_S
    assert not await use_code(own_database, SEALER, other, codes[0], now_s)
    typed = f" {codes[0].upper().replace('-', ' ')} "
    assert await use_code(own_database, SEALER, holder, typed, now_s)
    found = await find_factor(own_database, holder.kind, holder.subject_id)
    assert found is not None and found.recovery_codes == RECOVERY_CODES - 1
    for wrong in ("", "-", "1234567", "１２３４５６", "x" * 6):
        assert not await use_code(own_database, SEALER, holder, wrong, now_s)


async def test_a_factor_that_was_not_confirmed_is_not_asked_for(own_database: Database) -> None:
    holder, step = Holder("shop", "9", "nine"), int(time.time()) // STEP_S
    first = await begin_factor(own_database, SEALER, holder)
    second = await begin_factor(own_database, SEALER, holder)
    assert await find_factor(own_database, "shop", "9") is None
    assert not await use_code(own_database, SEALER, holder, code_at(second, step), step * STEP_S)
    for secret, is_right in ((first, False), (second, True), (second, False)):
        code = code_at(secret, step)
        made = await confirm_factor(own_database, RUNTIME, SEALER, holder, code, step * STEP_S)
        assert (made is not None) == is_right


async def test_a_factor_that_is_on_compares_no_code_to_confirm_it(
    own_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, secret, _, step = await _with_factor(own_database)
    compared: list[object] = []
    monkeypatch.setattr(second_factor, "_step", lambda *given: compared.append(given))
    code = code_at(secret, step + 1)
    made = await confirm_factor(own_database, RUNTIME, SEALER, holder, code, step * STEP_S)
    assert made is None and not compared


@pytest.mark.postgresql  # The embedded engine has one writer at a time.
@pytest.mark.parametrize("act", ["begin", "end"])
def test_a_factor_that_is_confirmed_meanwhile_keeps_its_codes_or_loses_both(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """The other act arrives when the confirmation is written, but not yet committed."""
    holder = Holder("shop", "race", "race")

    async def other(database: Database) -> None:
        if act == "begin":
            await begin_factor(database, SEALER, holder)
        else:
            await end_factor(database, RUNTIME, holder)

    async def work(database: Database) -> None:
        step = int(time.time()) // STEP_S
        secret = await begin_factor(database, SEALER, holder)
        others: list[asyncio.Task[None]] = []

        async def recorded(*given: object) -> None:
            others.append(asyncio.create_task(other(database)))
            await asyncio.wait(others, timeout=0.3)  # It cannot end before this one commits.
            monkeypatch.setattr(second_factor, "record_act", record_act)

        monkeypatch.setattr(second_factor, "record_act", recorded)
        code = code_at(secret, step)
        codes = await confirm_factor(database, RUNTIME, SEALER, holder, code, step * STEP_S)
        assert codes is not None
        (outcome,) = await asyncio.gather(*others, return_exceptions=True)
        found = await find_factor(database, holder.kind, holder.subject_id)
        if act == "begin":
            assert isinstance(outcome, LedgerError)
            assert found is not None and found.recovery_codes == RECOVERY_CODES
        else:
            assert outcome is None and found is None
            again = await begin_factor(database, SEALER, holder)
            await confirm_factor(
                database, RUNTIME, SEALER, holder, code_at(again, step), step * STEP_S
            )
            assert not await use_code(database, SEALER, holder, codes[0], step * STEP_S)

    own_store.do(work)
