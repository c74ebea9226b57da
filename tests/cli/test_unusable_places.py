"""A place where no gateway can be is refused before anything is made there: what is wrong with it,
and what to do."""

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Answer, Command
from tests.cli.test_errors import assert_one_sentence
from tests.faults.disk import IOERR, Fault, FaultyDisk
from tests.support import forks
from tests.support.ports import free_port
from tollway.gateway.listening import free_address
from tollway.settings import SettingsError
from tollway.store.database import StoreUnavailableError
from tollway.store.sqlite.change_watch import ChangeWatch
from tollway.store.sqlite.path_check import user_name

pytestmark = pytest.mark.sqlite

COMMANDS = ("account list", "migrate", "demo", "serve", "serve --demo")


def as_others(*arguments: str) -> Answer:
    """Runs a command as a user who may do only what the modes of files say."""
    done = forks.run("tests.cli.as_others", *arguments)
    return Answer(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def locked(workplace: Path) -> Iterator[Path]:
    """A folder whose mode a test changes; it can be removed afterwards."""
    folder = workplace / "locked"
    folder.mkdir()
    yield folder
    folder.chmod(0o700)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_folder_is_no_database(process: Command, workplace: Path, line: str) -> None:
    (workplace / "data").mkdir()
    answer = process(*line.split(), "--database", "sqlite:///data")
    assert_one_sentence(answer, 1, "data is a folder", "as sqlite:///data/tollway.db")
    assert [each.name for each in workplace.rglob("*")] == ["data"]


@pytest.mark.parametrize("line", COMMANDS[1:])
def test_a_path_that_is_too_long_for_sqlite_is_named_as_that(
    process: Command, workplace: Path, line: str
) -> None:
    folder = Path(*["f" * 200] * 3)
    folder.mkdir(parents=True)
    answer = process(*line.split(), "--database", f"sqlite:///{folder}/tollway.db")
    parts = ("tollway.db has a path of", "SQLite takes 504", "sqlite:///FILE")
    assert_one_sentence(answer, 1, *parts)
    assert not list(folder.iterdir())


def test_nothing_is_restored_to_a_folder(tollway: Command, workplace: Path) -> None:
    (workplace / "data").mkdir()
    assert tollway("migrate").status == 0
    assert tollway("backup", "copy.db").status == 0
    answer = tollway("restore", "copy.db", "--replace", "--database", "sqlite:///data")
    assert_one_sentence(answer, 1, "data is a folder", "as sqlite:///data/tollway.db")


@pytest.mark.parametrize("ending", ["keys", "secret"])
def test_keys_of_another_user_are_named_with_who_may_not_read_them(
    tollway: Command, workplace: Path, ending: str
) -> None:
    assert tollway("migrate").status == 0
    file = workplace / f"ledger.db.{ending}"
    file.touch(mode=0)
    answer = as_others("serve", "--port", str(free_port()))
    assert_one_sentence(answer, 1, f"{file.name} cannot be used: user {user_name()} has no right")


@pytest.mark.parametrize("line", COMMANDS)
def test_another_file_is_no_database(process: Command, workplace: Path, line: str) -> None:
    (workplace / "notes.txt").write_text("Buy milk.\n")
    answer = process(*line.split(), "--database", "sqlite:///notes.txt")
    assert_one_sentence(answer, 1, "notes.txt is no database", "--database", "`tollway restore")
    assert [each.name for each in workplace.rglob("*")] == ["notes.txt"]


def test_a_url_that_ends_with_a_slash_names_no_file(tollway: Command) -> None:
    answer = tollway("migrate", "--database", "sqlite:///data/")
    assert_one_sentence(answer, 1, "names no file: write sqlite:///FILE")


@pytest.mark.parametrize("line", COMMANDS[1:])
def test_a_folder_that_may_not_be_written_is_named_with_the_user(locked: Path, line: str) -> None:
    locked.chmod(0o555)
    answer = as_others(*line.split(), "--database", f"sqlite:///{locked}/tollway.db")
    assert_one_sentence(
        answer, 1, "tollway.db cannot be made, because user", f"to the folder {locked}:", "owner"
    )
    assert list(locked.iterdir()) == []


def test_a_database_in_such_a_folder_is_reported_too(tollway: Command, locked: Path) -> None:
    database = f"sqlite:///{locked}/tollway.db"
    assert tollway("migrate", "--database", database).status == 0
    locked.chmod(0o555)
    listed = as_others("account", "list", "--database", database)
    assert_one_sentence(listed, 1, "cannot be read or written, because user", f"folder {locked}:")
    served = as_others("serve", "--database", database, "--port", str(free_port()))
    assert_one_sentence(served, 1, "There is no key file", "write to it")
    (locked / "tollway.db").chmod(0)
    locked.chmod(0o755)
    hidden = as_others("account", "list", "--database", database)
    assert_one_sentence(hidden, 1, "because user", f"may not write to {locked}/tollway.db:")


def test_a_copy_in_such_a_folder_names_what_the_system_says(
    tollway: Command, workplace: Path, locked: Path
) -> None:
    database = f"sqlite:///{workplace}/tollway.db"
    assert tollway("migrate", "--database", database).status == 0
    locked.chmod(0o555)
    answer = as_others("backup", f"{locked}/copy.db", "--database", database)
    assert_one_sentence(answer, 1, f"{locked}/copy.db", "Permission denied. Change its rights")
    assert list(locked.iterdir()) == []


def test_a_disk_that_can_only_be_read_is_named_as_that(
    tollway: Command, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list(os.statvfs(workplace))
    found[8] |= os.ST_RDONLY
    monkeypatch.setattr("os.access", lambda *_: False)
    monkeypatch.setattr("os.statvfs", lambda _: os.statvfs_result(found))
    answer = tollway("migrate")
    assert_one_sentence(answer, 1, f"the folder {workplace} is on a disk that can only be read")


def test_a_disk_without_space_for_what_sqlite_needs_is_named_as_full(
    tollway: Command, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = ("--database", "sqlite:///tollway.db")
    assert tollway("migrate", *database).status == 0
    found = list(os.statvfs(workplace))
    found[4] = 0
    monkeypatch.setattr("os.statvfs", lambda _: os.statvfs_result(found))
    disk = FaultyDisk(workplace / "tollway.db")
    with disk.in_use(), disk.failing(Fault(1, IOERR, times=1000, name="xShmMap")):
        answer = tollway("account", "list", *database)
    full = f"because the disk of {workplace} is full: free some space on it. (disk I/O error)"
    assert_one_sentence(answer, 1, full)


def test_an_index_that_is_cut_short_is_reported(workplace: Path) -> None:
    """As a full disk leaves it, and a disk that can only be read then keeps it."""
    (workplace / "tollway.db-shm").write_bytes(b"...")
    with pytest.raises(StoreUnavailableError, match="is cut short"):
        ChangeWatch(str(workplace / "tollway.db"))


def test_an_error_of_the_system_comes_with_advice(
    locked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = locked / "tollway.toml"
    settings.write_text("port = 9000\n")
    settings.chmod(0)
    monkeypatch.setenv("TOLLWAY_CONFIG", str(settings))
    answer = as_others("settings")
    assert_one_sentence(answer, 1, f"{settings}: Permission denied. Change its rights")


def test_a_port_of_another_program_is_named_as_that(process: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        answer = process("serve", "--port", port)
    assert_one_sentence(answer, 1, f"127.0.0.1 port {port}: another program", "--port", "TOLLWAY_P")


def test_a_host_that_is_not_this_machine_is_named_as_that(process: Command) -> None:
    for host, part in (
        ("192.0.2.1", "192.0.2.1 is no address of this machine"),
        ("nothing.invalid", "nothing.invalid is no known name or address"),
        ("a..b", "a..b is no known name or address"),
    ):
        answer = process("serve", "--host", host, "--port", str(free_port()))
        assert_one_sentence(answer, 1, part, "--host")


def test_a_port_that_only_root_may_use_is_named_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("socket.socket.bind", refused)
    with pytest.raises(SettingsError, match="this user may not; below 1024 only root may"):
        free_address("127.0.0.1", 80)
