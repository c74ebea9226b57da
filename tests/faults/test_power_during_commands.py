"""A gateway is killed after a sync has failed, and the power goes while a command uses its file.

The connection that is closed last writes the log back into the file. A commit that is missing in
the log on the disk may then be in the file in parts, and the file is ruined.
"""

import asyncio
import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import apsw
import pytest

from tests.cli.conftest import charge_calls
from tests.faults.disk import IOERR, Fault, FaultyDisk
from tests.faults.test_power_after_kill import killed_at_the_end
from tests.power.disk import Disk, put_back
from tests.support.ports import free_port
from tests.support.stores import Store
from tollway.__main__ import main
from tollway.gateway.gateway import Gateway
from tollway.gateway.worker_group import WorkerGroup
from tollway.operations.catalogue import ALL_TABLES
from tollway.settings import Settings
from tollway.store.database import StoreUnavailableError
from tollway.store.key_check import files_of, use_files
from tollway.store.moving.source import open_source
from tollway.store.sqlite import write_ahead_log
from tollway.store.sqlite.connection import Connection
from tollway.telemetry.logs import LogWriter

pytestmark = pytest.mark.sqlite

MOMENTS = 60
CHARGED, GIVEN = 5, 100
_LOST = """
WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200)
INSERT INTO product SELECT 'p' || x, printf('%.2000c', 't'), '', 's' FROM n"""


class Killed:
    """A database whose log has charges that are on the disk, and after them a commit that is not:
    its sync failed, and the process was killed before it could overwrite it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.store = Store(folder / "tollway.db")
        self._after = folder / "after"
        command("account", "open", "acme", "--json")
        self._account = json.loads(capsys.readouterr().out)["id"]
        command("credit", "add", "acme", str(GIVEN), "--calls", "product_analysis")
        files = files_of(Settings(database=self.store.url))
        self.store.do(lambda database: use_files(database, files, ALL_TABLES))
        self._disk = Disk(self.store.path)
        self.faults = FaultyDisk(self.store.path, self._disk.journal)
        with self.faults.in_use(), killed_at_the_end():
            charge_calls(self.store, self._account, CHARGED)
            self._fail_to_commit()

    def _fail_to_commit(self) -> None:
        fault = Fault(1, IOERR, name="xSync")
        with self.faults.failing(fault), closing(apsw.Connection(str(self.store.path))) as opened:
            opened.execute("PRAGMA synchronous = FULL").fetchall()
            with pytest.raises(apsw.IOError):
                opened.execute(_LOST).fetchall()

    def breaches(self, work: Callable[["Killed"], None], seed: int) -> Iterator[str]:
        """What is wrong if the power goes at a moment of this work."""
        begun = len(self._disk.journal)
        with self.faults.in_use():
            work(self)
        end, chance = len(self._disk.journal), random.Random(seed)
        steps = range(begun, end)
        for moment in (*chance.sample(steps, min(MOMENTS, len(steps))), end):
            ((_, files),) = self._disk.cut_off([moment], chance)
            yield from self._wrong_in(files)

    def _wrong_in(self, files: dict[str, bytes]) -> Iterator[str]:
        try:
            with closing(apsw.Connection(str(put_back(files, self._after)))) as opened:
                found = opened.execute("PRAGMA integrity_check").fetchall()
                ((charges,),) = opened.execute(
                    "SELECT count(*) FROM entry WHERE operation = 'product_analysis'"
                )
        except apsw.Error as error:
            yield str(error)
            return
        if found != [("ok",)]:
            yield str(found)
        if charges != CHARGED:
            yield f"{charges} charges"


def command(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


def adding_credit(_: Killed) -> None:
    command("credit", "add", "acme", "7", "--calls", "product_analysis")


def reading(_: Killed) -> None:
    command("ledger", "show", "acme")


def starting_to_serve(_: Killed) -> None:
    serve_http, logs = (
        "tollway.gateway.supervisor.serve_http",
        "tollway.cli.serve.configure_logging",
    )
    with patch(serve_http), patch(logs):
        command("serve", "--port", str(free_port()))


def moving(killed: Killed) -> None:
    with open_source(str(killed.store.path), ALL_TABLES):
        pass


def failing_to_start_a_worker(killed: Killed) -> None:
    """It cannot write the log once more, and is closed in order."""

    async def serve() -> None:
        settings = Settings(database=killed.store.url)
        gateway = Gateway(settings, WorkerGroup(1, ""), 0, LogWriter(sys.stderr))
        with pytest.raises(StoreUnavailableError):
            await gateway.start()
        await gateway._resources.close()

    with killed.faults.failing(Fault(1, IOERR, name="xSync")):
        asyncio.run(serve())


def failing_command(killed: Killed) -> None:
    with killed.faults.failing(Fault(1, IOERR, name="xSync")), pytest.raises(SystemExit) as ended:
        main(("ledger", "show", "acme"))
    assert ended.value.code == 1


WORKS = (
    adding_credit,
    reading,
    starting_to_serve,
    moving,
    failing_to_start_a_worker,
    failing_command,
)


@pytest.fixture
def killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Killed:
    monkeypatch.setenv("TOLLWAY_DATABASE", f"sqlite:///{tmp_path / 'tollway.db'}")
    return Killed(tmp_path, capsys)


@pytest.mark.parametrize("work", WORKS)
def test_a_database_is_whole_if_the_power_goes(
    killed: Killed, work: Callable[[Killed], None]
) -> None:
    seed = random.SystemRandom().randrange(10**9)
    assert not list(killed.breaches(work, seed)), f"seed {seed}"


@pytest.mark.parametrize("work", WORKS[:4])
def test_the_control_that_trusts_the_log_is_found(
    killed: Killed, work: Callable[[Killed], None]
) -> None:
    with patch.object(write_ahead_log, "rewrite_log"):
        assert any(killed.breaches(work, seed=1))


@pytest.mark.parametrize("work", WORKS[4:])
def test_the_control_that_writes_the_log_back_all_the_same_is_found(
    killed: Killed, work: Callable[[Killed], None]
) -> None:
    with patch.object(Connection, "leave_log"):
        assert any(killed.breaches(work, seed=1))
