"""A backup that an operator downloads from a page."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.browsers import Browser
from tests.support.gateway import Gateway
from tests.support.stores import Store
from tollway.store.sqlite.files import make_backup_folder

LARGE_BYTES = 12_000_000


def _copies(store: Store) -> list[Path]:
    return list(store.path.parent.glob("tollway-backup-*"))


@pytest.mark.sqlite
def test_a_backup_is_downloaded_whole_and_nothing_of_it_stays(
    operator: Browser, store: Store, tmp_path: Path
) -> None:
    operator.open("/operator/backup")
    copy = operator.client.post("/operator/backup/download", data=operator.hidden())
    assert copy.status_code == 200, copy.text
    assert copy.headers["content-disposition"].startswith("attachment")
    path = tmp_path / "copy.db"
    path.write_bytes(copy.content)
    with closing(sqlite3.connect(path)) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert opened.execute("SELECT count(*) FROM person").fetchone()[0] > 0
    assert not _copies(store)
    assert "The last one was made" in operator.open("/operator/backup").text


@pytest.mark.sqlite
def test_a_backup_that_is_not_read_leaves_no_file_and_delays_no_page(
    operator: Browser, store: Store
) -> None:
    # More than the buffers between server and client hold.
    store.run(f"INSERT INTO last_run VALUES ('large', 1, 1, hex(zeroblob({LARGE_BYTES})))")
    try:
        operator.open("/operator/backup")
        path, fields = "/operator/backup/download", operator.hidden()
        with operator.client.stream("POST", path, data=fields) as begun:
            assert int(begun.headers["content-length"]) > LARGE_BYTES
            assert not _copies(store)
            assert operator.client.get("/openapi.json", timeout=10).status_code == 200
    finally:
        store.run("DELETE FROM last_run WHERE name = 'large'")


@pytest.mark.sqlite
def test_copies_of_a_gateway_that_was_killed_are_removed_at_its_start(tmp_path: Path) -> None:
    store = Store(tmp_path / "tollway.db")
    left = make_backup_folder(store.path)
    (left / store.path.name).write_bytes(b"a copy")
    others = make_backup_folder(store.path.with_name("tollway.db-2"))
    gateway = Gateway(store)
    assert not left.exists() and others.exists()
    assert gateway.stop() == 0


@pytest.mark.postgresql
def test_postgresql_is_backed_up_by_its_own_tools(operator: Browser) -> None:
    assert "pg_dump" in operator.open("/operator/backup").text
