"""The power goes during an import or after it: what it said is stored exists afterwards, and before
that a whole number of its commits does."""

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import apsw
import pytest

from tests.power.disk import Disk
from tests.power.trials import database_after, pragmas_for
from tests.support.orders import START_MS, order, sealer_of
from tests.support.stores import Store
from tollway.audit.report import audit
from tollway.intake.files import read_records
from tollway.intake.loading import LoadResult, checked_chunks, load
from tollway.intake.raw_records import IntakeError
from tollway.ledger.runtime import Runtime
from tollway.operations.orders.storage import OrderLoader
from tollway.store.open import open_database
from tollway.store.sqlite import connection
from tollway.store.sqlite.database import SqliteDatabase
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.sqlite

ORDERS, CHUNK = 300, 20
# With the second the log goes into the file now and then, which waits for the disk too.
LONG_LOG, SHORT_LOG = 10_000, 100
STATES = 60
NAMES = [f"260115-{number:09}" for number in range(ORDERS)]


class _Import:
    """An import on a disk that remembers, beside a gateway that keeps the database open: the last
    one to close it would have written all of it to the disk."""

    def __init__(self, folder: Path, log_pages: int, *, is_whole: bool = True) -> None:
        self._folder = folder
        store = Store(folder / "tollway.db")
        self._loader = OrderLoader(sealer_of(store))
        records = [order(name, confirm_time=START_MS + number) for number, name in enumerate(NAMES)]
        text = json.dumps(records)
        self._file = folder / "orders.json"
        self._file.write_text(text if is_whole else text.removesuffix("]"))
        self._disk = Disk(store.path)
        pragmas = pragmas_for("FULL", log_pages)
        with self._disk.remembering(), patch.object(connection, "_PRAGMAS", pragmas):
            asyncio.run(self._run(store))

    async def _run(self, store: Store) -> None:
        gateway, database = (open_database(store.url, Metrics()) for _ in range(2))
        chunks = checked_chunks(self._loader, read_records(self._file), CHUNK)
        try:
            await load(database, self._loader, chunks, lambda _: None, self._hear)
        except IntakeError:
            assert self._reported.stored
        self.said_at = len(self._disk.journal)
        await database.close()
        self.steps = len(self._disk.journal)
        await gateway.close()

    def _hear(self, result: LoadResult, _: int) -> None:
        self._reported = result

    def breaches(self, moments: list[int], chance: random.Random) -> Iterator[str]:
        for nth, (moment, files) in enumerate(self._disk.cut_off(moments, chance)):
            place = database_after(self._folder, files)
            found = _orders_in(place)
            if isinstance(found, str):
                yield f"after {moment} steps: {found}"
            elif moment >= self.said_at and len(found) < self._reported.stored:
                yield f"after {moment} steps: {self._reported.stored - len(found)} orders are lost"
            elif found != set(NAMES[: len(found)]) or len(found) % CHUNK:
                yield f"after {moment} steps: {len(found)} orders are no whole commits"
            elif nth % 20 == 0:
                report = Store(place).do(lambda database: audit(database, Runtime().at_ms()))
                yield from map(str, report.damage)


def _orders_in(place: Path) -> set[str] | str:
    left = apsw.Connection(str(place))
    try:
        whole = left.execute("PRAGMA integrity_check").fetchall()
        if whole != [("ok",)]:
            return f"not whole: {whole[0][0]}"
        return {row[0] for row in left.execute("SELECT order_sn FROM shop_order")}
    except apsw.Error as error:
        return f"cannot be read: {error}"
    finally:
        left.close()


@pytest.mark.parametrize("log_pages", [LONG_LOG, SHORT_LOG])
@pytest.mark.parametrize("is_whole", [True, False])
def test_an_import_that_has_reported_its_result_is_there(
    tmp_path: Path, log_pages: int, is_whole: bool
) -> None:
    trial = _Import(tmp_path, log_pages, is_whole=is_whole)
    seed = random.SystemRandom().randrange(10**9)
    chance = random.Random(seed)
    moments = [trial.said_at] * STATES
    assert not list(trial.breaches(moments, chance)), f"seed {seed}"


def test_an_import_that_is_cut_off_leaves_whole_commits(tmp_path: Path) -> None:
    trial = _Import(tmp_path, SHORT_LOG)
    seed = random.SystemRandom().randrange(10**9)
    chance = random.Random(seed)
    moments = [chance.randint(0, trial.steps) for _ in range(STATES)]
    assert not list(trial.breaches(moments, chance)), f"seed {seed}"


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_control_that_does_not_wait_at_the_end_loses_something(
    tmp_path: Path, is_whole: bool
) -> None:
    async def does_not_wait(_: SqliteDatabase) -> None: ...

    with patch.object(SqliteDatabase, "make_durable", does_not_wait):
        trial = _Import(tmp_path, LONG_LOG, is_whole=is_whole)
    assert any(trial.breaches([trial.said_at] * STATES, random.Random(1)))
