"""A backup is the whole database at one moment, taken while others write to it."""

from pathlib import Path

import apsw
import pytest

from tests.cli.conftest import Command, charge_calls
from tests.support.stores import Store

pytestmark = pytest.mark.sqlite


def test_a_copy_has_the_same_books(process: Command, tollway: Command, books: Store) -> None:
    account_id = tollway("account", "open", "acme", "--json").json["id"]
    tollway("credit", "add", "acme", "100", "--calls", "product_analysis")
    charge_calls(books, account_id, 10)
    answer = process("backup", "copy.db")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith("The copy is in copy.db, ")
    of_copy = tollway("audit", "--database", "sqlite:///copy.db", "--json")
    assert of_copy.json == tollway("audit", "--json").json


def test_an_existing_file_is_never_written_over(
    tollway: Command, books: Store, workplace: Path
) -> None:
    (workplace / "precious").write_text("mine")
    assert tollway("backup", "precious").status == 1
    assert (workplace / "precious").read_text() == "mine"


def test_what_is_not_committed_is_not_copied_and_not_waited_for(
    tollway: Command, books: Store, workplace: Path
) -> None:
    writer = apsw.Connection(str(books.path))
    writer.execute("BEGIN IMMEDIATE; UPDATE version SET directory = 4711").fetchall()
    assert tollway("backup", "copy.db").status == 0
    writer.execute("COMMIT")
    copy = apsw.Connection(str(workplace / "copy.db"))
    assert copy.execute("SELECT directory FROM version").fetchall() == [(0,)]
    assert list(workplace.glob("*.unfinished*")) == []
