"""The power goes after a sync has failed: a write that failed for certain does not come back, and
one that was acknowledged is there, also one after it.

What a failed sync has brought to the disk is not known, so every state of it is possible; and the
system reports such an error once, so no later sync makes up for it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import apsw
import pytest

from tests.faults.disk import IOERR, Fault, FaultyDisk, checkpoints_every
from tests.power.disk import Disk, put_back
from tests.support.any_rows import ADD
from tests.support.stores import Store
from tollway.store.database import CommitUnknownError, StoreError
from tollway.store.open import OpenDatabase, open_database
from tollway.store.small_commits import PieceBudget
from tollway.store.sqlite.writer import Writer
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.sqlite

WRITES = 60
STATES = 100
_CHECKPOINT_PAGES = 40
_UPKEEP_SHARE = 0.3


class Written(NamedTuple):
    """What came of a write, and how many steps the disk had done by then."""

    moment: int
    name: str
    is_done: bool


# Does a piece of upkeep.
Upkeep = Callable[[OpenDatabase, Path, str], Awaitable[None]]


async def piece(database: OpenDatabase, _: Path, name: str) -> None:
    await PieceBudget(1).spend(database, lambda tx, _: tx.execute(ADD, product_id=name))


async def piece_that_does_not_wait(_: OpenDatabase, path: Path, name: str) -> None:
    with closing(apsw.Connection(str(path))) as opened:
        opened.execute("PRAGMA synchronous = NORMAL")
        opened.execute("INSERT INTO product VALUES (?, 't', '', 's')", (name,))


class Run:
    """Writes, of which the syncs of some fail. Before some there is a piece of upkeep."""

    def __init__(self, folder: Path, chance: random.Random, upkeep: Upkeep = piece) -> None:
        self._chance = chance
        self._upkeep = upkeep
        self._folder = folder
        store = Store(folder / "tollway.db")
        self._disk = Disk(store.path)
        self._faults = FaultyDisk(store.path, self._disk.journal)
        self.written: list[Written] = []
        with self._faults.in_use(), checkpoints_every(_CHECKPOINT_PAGES):
            asyncio.run(self._write(store))

    async def _write(self, store: Store) -> None:
        database = open_database(store.url, Metrics())
        for number in range(WRITES):
            name = f"n{number}"
            if self._chance.random() < _UPKEEP_SHARE:
                await self._upkeep(database, store.path, f"upkeep {number}")
            # Of the commit, or also of what follows it.
            times = self._chance.choice((0, 1, 1, 2))
            with self._faults.failing(Fault(1, IOERR, times=times, name="xSync")):
                try:
                    await database.write(lambda tx, name=name: tx.execute(ADD, product_id=name))
                except CommitUnknownError:
                    continue
                except StoreError:
                    is_done = False
                else:
                    is_done = True
            self.written.append(Written(len(self._disk.journal), name, is_done))
        await database.close()

    def wrong(self) -> Iterator[str]:
        moments = [self._chance.choice(self.written).moment for _ in range(STATES)]
        for moment, files in self._disk.cut_off(moments, self._chance):
            found = self._found(files)
            for each in self.written:
                if each.moment <= moment and (each.name in found) != each.is_done:
                    yield f"{each} after {moment} steps"

    def _found(self, files: dict[str, bytes]) -> set[str]:
        with closing(apsw.Connection(str(put_back(files, self._folder / "after")))) as opened:
            return {name for (name,) in opened.execute("SELECT product_id FROM product")}


def test_what_failed_does_not_come_back_and_what_was_acknowledged_is_there(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**9)
    run = Run(tmp_path, random.Random(seed))
    assert {each.is_done for each in run.written} == {True, False}
    assert not list(run.wrong()), f"seed {seed}"


def test_the_control_that_leaves_it_in_the_log_is_found(tmp_path: Path) -> None:
    with patch.object(Writer, "_discard_failed_commit", lambda _: True):
        assert any(Run(tmp_path, random.Random(1)).wrong())


def test_the_control_whose_upkeep_does_not_wait_for_the_disk_is_found(tmp_path: Path) -> None:
    assert any(Run(tmp_path, random.Random(1), piece_that_does_not_wait).wrong())
