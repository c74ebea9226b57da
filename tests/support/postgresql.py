"""A real PostgreSQL for tests: one server per process, and a fresh database wherever one is needed.

`TOLLWAY_TEST_DATABASE=postgresql://USER:PASSWORD@HOST/NAME` uses a server that is there already,
whose user may create databases.
"""

import asyncio
import atexit
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from tests.support.kept_connections import (
    forget,
    forget_all,
    is_plain,
    keep_connections_to,
    raw_connection,
    run_kept,
)
from tests.support.ports import free_port
from tests.support.server_files import BIN, new_data, run_program, server_folder, unprivileged
from tollway.store.migrate import migrate
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.telemetry.metrics import Metrics

_TIMEOUT_S = 60
_OPTIONS = {
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
    "max_connections": "300",
    # What these tests test is not lost with the machine.
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    # Several servers run side by side: their logs of changes must not fill the disk.
    "max_wal_size": "128MB",
    "min_wal_size": "32MB",
    "log_min_messages": "fatal",
}
STANDBY = "standby"
_WAITING = """
SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE NOT granted AND datname = current_database()"""
# Relations, functions and settings; the first number that is not a server's own is this.
_MADE_IN_IT = """
SELECT (SELECT count(*) FROM pg_class WHERE oid >= 16384)
+ (SELECT count(*) FROM pg_proc WHERE oid >= 16384)
+ (SELECT count(*) FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase
WHERE datname = current_database())"""
_numbers = count(1)
_users: list[list[str]] = []
_unused: list[str] = []
_bare: list[str] = []


class Server:
    """A PostgreSQL of one's own, which can be stopped and started again.

    One that follows another begins as its copy, and as its standby; one can also begin with the
    data directory of a base backup.
    """

    def __init__(
        self, *, follows: "Server | None" = None, backup: Path | None = None, **options: str
    ) -> None:
        self._folder = server_folder()
        self._data = self._folder / "data"
        self._log = self._folder / "log"
        self._options = {**_OPTIONS, **options}
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        if backup is not None:
            copy = ["cp", "-r", backup, self._data]
            subprocess.run(copy, check=True, **unprivileged(self._folder))
        elif follows is None:
            copy = ["cp", "-r", new_data(), self._data]
            subprocess.run(copy, check=True, **unprivileged(self._folder))
        else:
            self._run("pg_basebackup", "-N", "-R", "-c", "fast", "-d", follows.url)
            self._options["primary_conninfo"] = (
                f"host=127.0.0.1 port={follows.port} user=postgres application_name={STANDBY}"
            )
        self.start()
        atexit.register(self.remove)

    def start(self) -> None:
        settings = [f"--{name}={value}" for name, value in self._options.items()]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [BIN / "postgres", "-D", self._data, "-p", str(self.port), *settings],
                stdout=subprocess.DEVNULL,
                stderr=log,
                **unprivileged(self._folder),
            )
        deadline_s = monotonic() + _TIMEOUT_S
        while subprocess.run(
            [BIN / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
        ).returncode:
            assert monotonic() < deadline_s, "PostgreSQL did not start"
            sleep(0.05)

    def log(self) -> str:
        """Only how it ended, unless its options say more."""
        return self._log.read_text()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Fast by default; SIGQUIT is a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=_TIMEOUT_S)
            self._process = None

    def kill(self) -> None:
        """All of its processes at once, as when the machine goes away."""
        for pid in self._processes():
            # Some end by themselves when the main process has.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert self._process is not None
        self._process.wait(timeout=_TIMEOUT_S)
        self._process = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """It does nothing meanwhile, and does not go away either."""
        for pid in self._processes():
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            # Its own process last: from then on, those that it has started may end.
            for pid in reversed(self._processes()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _processes(self) -> list[int]:
        assert self._process is not None
        main = self._process.pid
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        return [main, *map(int, children)]

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        run_program(self._folder, program, "-D", self._data, *arguments)


@cache
def server_url() -> str:
    """The server that all tests of this process share."""
    url = os.environ.get("TOLLWAY_TEST_DATABASE") or Server().url
    keep_connections_to(url)
    return url


def new_database(*, is_migrated: bool = True) -> str:
    """The URL of a database of its own."""
    return _create_for_user(_template() if is_migrated else "template0")


def bare_database() -> str:
    """The URL of one without a schema: the same again, until a test has made something in it."""
    if _bare and run_on(_url_of(_bare[0]), _MADE_IN_IT) != [(0,)]:
        drop(_bare)
    if not _bare:
        with databases_of(_bare):
            new_database(is_migrated=False)
    return _url_of(_bare[0])


def copy_of(url: str) -> str:
    """The URL of a new database with the content of one without connections."""
    forget(url)
    return _create_for_user(urlsplit(url).path[1:])


@contextmanager
def databases_of(user: list[str]) -> Iterator[None]:
    """What is made meanwhile is for this user: a fixture or a test, which drops it at its end."""
    _users.append(user)
    try:
        yield
    finally:
        _users.pop()


def drop(user: list[str]) -> None:
    """Those of a user that is over; they go with the next one that is made."""
    forget(*map(_url_of, user))
    _unused.extend(user)
    user.clear()


def _create_for_user(template: str) -> str:
    url = _create(template)
    if _users:
        _users[-1].append(urlsplit(url).path[1:])
    return url


@cache
def _template() -> str:
    url = _create("template0")

    async def work() -> None:
        database = PostgresqlDatabase(url, None, Metrics())
        await migrate(database)
        await database.close()

    asyncio.run(work())
    return urlsplit(url).path[1:]


def _create(template: str) -> str:
    name = f"tollway_test_{os.getpid()}_{next(_numbers)}"
    server = server_url()
    dropped = [f"DROP DATABASE IF EXISTS {each} WITH (FORCE)" for each in _unused]
    _unused.clear()
    _run(server, *dropped, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    if "TOLLWAY_TEST_DATABASE" in os.environ:
        atexit.register(run_on, server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    url = _url_of(name)
    keep_connections_to(url)
    return url


def _url_of(name: str) -> str:
    return urlunsplit(urlsplit(server_url())._replace(path=f"/{name}"))


@contextmanager
def locked(url: str, *tables: str, mode: str = "EXCLUSIVE") -> Iterator[None]:
    """No other process can write to these tables meanwhile, nor read them in another mode."""
    names = ", ".join(f'"{table}"' for table in tables)
    lock = f"LOCK TABLE {names} IN {mode} MODE NOWAIT"
    deadline_s = monotonic() + _TIMEOUT_S
    with ExitStack() as hold:
        # All at once or none: a gateway's own work may have one of them and wait for another.
        while True:
            try:
                hold.enter_context(left_open(url, lock))
                break
            except asyncpg.LockNotAvailableError:
                assert monotonic() < deadline_s, f"not free at any moment: {names}"
                sleep(0.02)
        yield


@contextmanager
def left_open(url: str, statement: str) -> Iterator[None]:
    """A transaction that has done this meanwhile, and is undone then."""
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(url))
        try:
            runner.run(connection.execute(f"BEGIN; {statement}"))
            yield
        finally:
            runner.run(connection.close())


def waiting(url: str) -> int:
    """How many statements wait for what is held."""
    ((number,),) = run_on(url, _WAITING)
    return int(str(number))


def run_on(url: str, *statements: str) -> list[tuple[object, ...]]:
    """Runs statements, each in a transaction of its own; gives the rows of the last."""
    if is_plain(statements):
        return _run(url, *statements)
    forget_all()
    try:
        return _run(url, *statements)
    finally:
        forget_all()


def _run(url: str, *statements: str) -> list[tuple[object, ...]]:
    async def work() -> list[tuple[object, ...]]:
        async with raw_connection(url) as connection:
            *others, last = statements
            for each in others:
                await connection.execute(each)
            return [tuple(row) for row in await connection.fetch(last)]

    return run_kept(work())
