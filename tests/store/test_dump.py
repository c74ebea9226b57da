"""A PostgreSQL database is copied and restored with its own tools, as the page says."""

import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, blocks_of
from tests.support.months import OLD_MS
from tests.support.orders import miscounted, order, put_orders
from tests.support.postgresql import new_database
from tests.support.server_files import BIN
from tests.support.stores import Store
from tollway.audit.report import audit
from tollway.ledger.runtime import Runtime

pytestmark = pytest.mark.postgresql


def test_a_dump_is_restored_to_a_new_database(tmp_path: Path) -> None:
    store, empty = Store(tmp_path / "tollway.db"), new_database(is_migrated=False)
    (block,) = [each for each in blocks_of(DOCS / "operate/backup.md") if "pg_restore" in each.text]
    dump, restore, analyze = (line.removeprefix("$ ") for line in block.text.splitlines())

    def run(command: str) -> None:
        subprocess.run(
            ["bash", "-ec", command],
            env={
                "PATH": f"{BIN}:/usr/bin:/bin",
                "TOLLWAY_DATABASE": store.url,
                "NEW_DATABASE": empty,
            },
            cwd=tmp_path,
            check=True,
        )

    put_orders(store, [order("first", confirm_time=OLD_MS)])
    run(dump)
    put_orders(store, [order("later", confirm_time=OLD_MS)])
    run(restore)
    run(analyze)
    restored = Store(store.path, empty)
    analysed = "SELECT reltuples FROM pg_class WHERE relname = 'account'"
    assert restored.run(analysed) != [(-1.0,)], "the planner knows nothing of it"
    assert restored.run("SELECT order_sn FROM shop_order") == [("first",)]
    assert restored.do(miscounted) == {}
    assert restored.do(lambda database: audit(database, Runtime().at_ms())).breaches == []
    # It goes on from there.
    put_orders(restored, [order("next", confirm_time=OLD_MS)])
    assert restored.do(miscounted) == {}
