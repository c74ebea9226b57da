"""A PostgreSQL database is restored as it was at any moment, with the settings of the page."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, blocks_of
from tests.support.ledger import CALLS, RUNTIME, amount_left, new_caller
from tests.support.postgresql import Server, run_on
from tests.support.remote import eventually
from tests.support.server_files import BIN, server_folder, unprivileged
from tests.support.stores import Store
from tollway.audit.report import audit
from tollway.ledger.entries import top_up

pytestmark = pytest.mark.postgresql


@pytest.fixture
def backup(engine: str) -> Iterator[Path]:
    """A folder that the server may write to."""
    folder = server_folder()
    subprocess.run(["mkdir", "wal"], check=True, **unprivileged(folder))
    yield folder
    shutil.rmtree(folder)


def _page_settings(setting: str, backup: Path) -> dict[str, str]:
    """The settings of the block that has this one, with the folder of this test."""
    blocks = [each.text for each in blocks_of(DOCS / "operate/backup.md")]
    (block,) = [each for each in blocks if each.startswith(setting)]
    found = re.findall(r"^(\w+) = '?(.*?)'?$", block, re.MULTILINE)
    return {name: value.replace("/backup", str(backup)) for name, value in found}


def test_what_was_committed_until_then_is_there_and_nothing_later(
    backup: Path, tmp_path: Path
) -> None:
    server = Server(**_page_settings("archive_mode", backup))
    store = Store(tmp_path / "tollway.db", server.url)
    caller = new_caller(store, calls=1)
    (block,) = [each for each in blocks_of(DOCS / "operate/backup.md") if "basebackup" in each.text]
    command = block.text.removeprefix("$ ").replace("/backup", str(backup))
    command = f'export PATH="{BIN}:$PATH" SERVER="{server.url}"\n{command}'
    subprocess.run(["bash", "-ec", command], check=True, **unprivileged(backup))

    store.do(lambda database: top_up(database, RUNTIME, caller.account_id, CALLS, 10))
    ((moment,),) = run_on(server.url, "SELECT clock_timestamp()::text")
    store.do(lambda database: top_up(database, RUNTIME, caller.account_id, CALLS, 100))
    ((last,),) = run_on(server.url, "SELECT pg_walfile_name(pg_switch_wal())")
    eventually((backup / "wal" / str(last)).exists, bool)
    server.stop()

    recovery = _page_settings("restore_command", backup) | {"recovery_target_time": str(moment)}
    subprocess.run(["touch", "base/recovery.signal"], check=True, **unprivileged(backup))
    recovered = Server(backup=backup / "base", **recovery)
    eventually(
        lambda: run_on(recovered.url, "SELECT pg_is_in_recovery()"), lambda it: it == [(False,)]
    )
    restored = Store(store.path, recovered.url)
    assert amount_left(restored, caller, CALLS) == 11
    assert restored.do(lambda database: audit(database, RUNTIME.at_ms())).breaches == []
    recovered.remove()
    server.remove()
