"""A pooler that gives each transaction another connection is refused, and the sentence says so."""

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.support import forks
from tests.support.ports import free_port
from tests.support.postgresql import new_database, run_on
from tests.support.remote import eventually
from tests.support.server_files import server_folder, unprivileged
from tollway.store.database import StoreUnavailableError
from tollway.store.postgresql.hosts import Hosts
from tollway.store.postgresql.poolers import refuse_pooler

pytestmark = pytest.mark.postgresql
with_pgbouncer = pytest.mark.skipif(
    shutil.which("pgbouncer") is None, reason="pgbouncer is not installed"
)
SETTINGS = Hosts("postgresql://me@host/name", None, "read-write")._settings
_CONFIGURATION = """
[databases]
{name} = host=127.0.0.1 port={server_port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
ignore_startup_parameters = {ignored}
"""


@contextmanager
def pgbouncer(url: str, mode: str, ignored: str) -> Iterator[str]:
    """The URL of the database through PgBouncer."""
    parts, port, folder = urlsplit(url), free_port(), server_folder()
    path = folder / "pgbouncer.ini"
    text = _CONFIGURATION.format(
        name=parts.path[1:], server_port=parts.port, port=port, mode=mode, ignored=ignored
    )
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    server = subprocess.Popen(
        ["pgbouncer", "-q", str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **cast(dict[str, Any], unprivileged(folder)),
    )
    through = f"postgresql://postgres@127.0.0.1:{port}{parts.path}"
    try:
        eventually(lambda: _answers(through), bool)
        yield through
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder)


def _answers(url: str) -> bool:
    try:
        run_on(url, "SELECT 1")
    except OSError:
        return False
    return True


def _refused(url: str, folder: Path) -> str:
    """The sentence with which `tollway serve` does not start."""
    done = forks.run(
        *("tollway", "serve", "--database", url, "--port", str(free_port())),
        env={
            "TOLLWAY_KEY_FILE": str(folder / "keys"),
            "TOLLWAY_SECRET_FILE": str(folder / "secret"),
        },
        cwd=folder,
    )
    assert done.returncode == 1
    assert not (folder / "keys").exists()
    return " ".join(done.stderr.split())


@with_pgbouncer
def test_pgbouncer_in_transaction_mode_is_refused_at_the_start(tmp_path: Path) -> None:
    with pgbouncer(new_database(), "transaction", ",".join(SETTINGS)) as url:
        assert "PgBouncer in transaction mode" in _refused(url, tmp_path)


@with_pgbouncer
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_pgbouncer_that_refuses_our_settings_is_named(tmp_path: Path, mode: str) -> None:
    with pgbouncer(new_database(), mode, "") as url:
        sentence = _refused(url, tmp_path)
        assert "connection pooler that refuses the settings" in sentence
        assert "unsupported startup parameter" in sentence


@with_pgbouncer
def test_pgbouncer_in_session_mode_is_refused_only_if_settings_are_lost(tmp_path: Path) -> None:
    server = new_database()
    with pgbouncer(server, "session", ",".join(SETTINGS)) as url:
        assert "drops the settings of a connection" in _refused(url, tmp_path)
        name = urlsplit(server).path[1:]
        for setting, value in SETTINGS.items():
            run_on(server, f"ALTER DATABASE {name} SET {setting} = '{value}'")

        async def connect() -> None:
            connection = await Hosts(url, None, "read-write").connect()
            assert await connection.fetchval("SELECT 1") == 1
            await connection.close()

        # What PgBouncer still had open was made before.
        run_on(
            server,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE datname = '{name}' AND pid <> pg_backend_pid()",
        )
        asyncio.run(connect())


class FakePooler:
    """A client's end of a connection through a pooler, in either mode."""

    def __init__(self, *, is_notified: bool, lost: str = "") -> None:
        self._is_notified = is_notified
        self._lost = lost
        self._listener: Callable[..., None] | None = None

    def get_server_pid(self) -> int:
        return 1

    async def fetchval(self, _: str) -> int:
        return 2

    async def fetch(self, _: str, names: list[str]) -> list[dict[str, str]]:
        return [
            {"name": name, "setting": "" if name == self._lost else SETTINGS[name]}
            for name in names
        ]

    async def add_listener(self, _: str, listener: Callable[..., None]) -> None:
        self._listener = listener

    async def remove_listener(self, _: str, __: object) -> None:
        self._listener = None

    async def execute(self, statement: str) -> None:
        if self._is_notified and self._listener is not None:
            self._listener(self, 2, "", statement.split("'")[3])

    def terminate(self) -> None: ...


@pytest.mark.parametrize(
    ("is_notified", "lost", "sentence"),
    [
        (False, "", "PgBouncer in transaction mode"),
        (True, "synchronous_commit", r"drops the settings of a connection \(synchronous_commit\)"),
        (True, "", None),
    ],
)
def test_a_pooler_is_judged_by_what_it_does(
    is_notified: bool, lost: str, sentence: str | None
) -> None:
    pooler = cast(
        "asyncpg.Connection[asyncpg.Record]", FakePooler(is_notified=is_notified, lost=lost)
    )

    async def connect_again() -> "asyncpg.Connection[asyncpg.Record]":
        return pooler

    checking = refuse_pooler(pooler, connect_again, SETTINGS, 0.01)
    if sentence is None:
        asyncio.run(checking)
    else:
        with pytest.raises(StoreUnavailableError, match=sentence):
            asyncio.run(checking)
