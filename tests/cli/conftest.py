"""The command line as tests use it: as a process of its own, or, where only the answer matters,
inside the test's process, which spares the start-up."""

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import pytest

from tests.cli.moves import fill, in_source
from tests.support import forks
from tests.support.engines import Engine
from tests.support.kept_connections import forget_all, lend, run_kept
from tests.support.migrations import become_next_version
from tests.support.orders import order, put_orders
from tests.support.postgresql import bare_database, new_database
from tests.support.stores import Store
from tollway.__main__ import main
from tollway.cli import command
from tollway.ledger.charging import Charge, post_charges
from tollway.store.database import Transaction
from tollway.store.open import OpenDatabase, open_database
from tollway.store.postgresql.database import PostgresqlDatabase

CALLS = "calls:product_analysis"
# After these a new connection may be different.
_CHANGE_SCHEMA = {"migrate", "move", "restore"}
# Filled once: every test that moves it begins with the same.
_old_files: dict[str, bytes] = {}
_backup_files: dict[str, tuple[int, bytes]] = {}


class Answer(NamedTuple):
    """What a command printed, and the status it ended with."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Command(Protocol):
    """Runs `tollway` with these arguments."""

    def __call__(self, *arguments: str) -> Answer: ...


@pytest.fixture(autouse=True)
def workplace(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: Engine,
    request: pytest.FixtureRequest,
) -> Path:
    """An empty working directory, and an environment that sets nothing but the database."""
    for variable in [name for name in os.environ if name.startswith("TOLLWAY_")]:
        monkeypatch.delenv(variable)
    if engine == "postgresql":
        # A test with a database of its own sets its URL itself.
        if "ledger_store" not in request.fixturenames:
            monkeypatch.setenv("TOLLWAY_DATABASE", bare_database())
        monkeypatch.setenv("TOLLWAY_KEY_FILE", str(tmp_path / "ledger.db.keys"))
        monkeypatch.setenv("TOLLWAY_SECRET_FILE", str(tmp_path / "ledger.db.secret"))
    else:
        monkeypatch.setenv("TOLLWAY_DATABASE", "sqlite:///ledger.db")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ledger_store(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The database that the commands of a test work on, migrated."""
    store = Store(workplace / "ledger.db")
    if store.is_shared:
        monkeypatch.setenv("TOLLWAY_DATABASE", store.url)
    return store


@pytest.fixture
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., None]]:
    """Makes this process, whose commands `tollway` runs, one of the next version."""
    with pytest.MonkeyPatch.context() as patch:
        yield partial(become_next_version, patch, tmp_path_factory.mktemp("next") / "migrations")


@pytest.fixture
def old(workplace: Path) -> Path:
    """A file to move, with something of most kinds in it, and its keys."""
    if not _old_files:
        in_source(fill)
        _old_files.update({each.name: each.read_bytes() for each in workplace.glob("old.db*")})
    for name, content in _old_files.items():
        file = workplace / name
        file.write_bytes(content)
        file.chmod(0o600)
    return workplace / "old.db"


@pytest.fixture
def target(workplace: Path) -> Store:
    """An empty database to move it to, which the settings give a key file and a secret file."""
    return Store(workplace / "ledger.db", new_database())


@pytest.fixture
def process() -> Command:
    def run(*arguments: str) -> Answer:
        done = forks.run("tollway", *arguments)
        return Answer(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def kept_connections(engine: Engine) -> Iterator[None]:
    """Commands in this process leave their connection to the next one: to make one, and to plan all
    statements again, takes the server longer than most of what they do."""

    def opened(url: str, timings: Any) -> OpenDatabase:
        database = open_database(url, timings)
        if isinstance(database, PostgresqlDatabase):
            lend(url, database)
        return database

    with pytest.MonkeyPatch.context() as patch:
        if engine == "postgresql":
            patch.setattr(command, "asyncio", SimpleNamespace(run=run_kept))
            patch.setattr(command, "open_database", opened)
        yield


@pytest.fixture
def tollway(capsys: pytest.CaptureFixture[str], kept_connections: None) -> Command:
    def run(*arguments: str) -> Answer:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        printed = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        # After an error nothing is known of a connection. An audit with a report had none.
        is_failed = bool(ended.value.code) and not (arguments[0] == "audit" and printed.out)
        if is_failed or arguments[0] in _CHANGE_SCHEMA:
            forget_all()
        return Answer(ended.value.code, printed.out, printed.err)

    return run


def charge_calls(ledger_store: Store, account_id: str, count: int) -> None:
    """Charges calls, one call each, as a gateway would."""

    async def work(database: OpenDatabase) -> None:
        async def post(transaction: Transaction) -> None:
            await post_charges(
                transaction,
                [
                    Charge(account_id, CALLS, 1, "product_analysis", f"r{n}", "tok_x", 1000 + n)
                    for n in range(count)
                ],
            )

        await database.write(post)

    ledger_store.do(work)


def ruin_a_page(path: Path) -> None:
    """As a disk does that gives back other bytes than it was given."""
    content = bytearray(path.read_bytes())
    content[4096 * 9 : 4096 * 10] = bytes(range(256)) * 16
    path.write_bytes(content)


@pytest.fixture
def backup(tollway: Command, ledger_store: Store, workplace: Path) -> Path:
    """A backup of a ledger with charges, with its keys. Made once: every test begins with the same
    files."""
    if not _backup_files:
        _make_backup(tollway, ledger_store)
        for file in workplace.iterdir():
            _backup_files[file.name] = (file.stat().st_mode, file.read_bytes())
    for name, (mode, content) in _backup_files.items():
        (workplace / name).write_bytes(content)
        (workplace / name).chmod(mode)
    return workplace / "copy.db"


def _make_backup(tollway: Command, ledger_store: Store) -> None:
    account_id = tollway("account", "open", "acme", "--json").json["id"]
    tollway("credit", "add", "acme", "100", "--calls", "product_analysis")
    charge_calls(ledger_store, account_id, 10)
    put_orders(ledger_store, [order(f"{number:06d}") for number in range(300)])
    tollway("source", "add", "market", "--shop", "*")
    assert tollway("backup", "copy.db", "--with-keys").status == 0


def files(workplace: Path) -> dict[str, bytes]:
    return {
        each.name: each.read_bytes()
        for each in workplace.iterdir()
        if not each.name.endswith(".lock")
    }


def assert_refused(answer: Answer, *parts: str) -> None:
    assert (answer.status, answer.out) == (1, ""), answer
    assert answer.err.count("\n") == 1, answer.err
    for part in parts:
        assert part in answer.err
