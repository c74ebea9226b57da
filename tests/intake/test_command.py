"""`tollway import product-figures`: the command, its report and its reject file."""

import asyncio
import gzip
import json
import os
import signal
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tests.intake.conftest import Figures
from tollway.__main__ import main
from tollway.cli import intake
from tollway.intake.loading import load

CONTENT = (
    "kind,product_id,title,shop_name\n"
    "product,p1,one,shop\n"
    "product,,nameless,shop\n"
    "product,p2,two,shop\n"
    "product,p3,cut\n"
)


@pytest.fixture
def file(figures: Figures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("TOLLWAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TOLLWAY_DATABASE", figures.store.url)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "figures.csv"
    path.write_text(CONTENT, encoding="utf-8")
    return path


def tollway(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(("import", "product-figures", *arguments))
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_good_rows_are_stored_and_bad_ones_are_in_the_reject_file(
    figures: Figures, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tollway(str(file), "--json") == 1
    rejects = file.with_name("figures.csv.rejected.jsonl")
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"read": 4, "stored": 2, "changed": 2, "rejected": 2, "rejects": str(rejects)}
    lines = [json.loads(line) for line in rejects.read_text(encoding="utf-8").splitlines()]
    assert [(line["line"], line["record"]) for line in lines] == [
        (3, "product,,nameless,shop"),
        (5, "product,p3,cut"),
    ]
    assert [line["reason"] for line in lines] == [
        "product_id: it is missing; send a text of 1 to 64 characters.",
        "the line has 3 cells, the header 4; leave a cell empty that has no value.",
    ]
    assert [row[0] for row in figures.rows("product")] == ["p1", "p2"]


def test_the_outcome_is_printed_in_words(
    file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rejects = tmp_path / "aside.jsonl"
    assert tollway(str(file), "--rejects", str(rejects)) == 1
    printed = capsys.readouterr().out
    assert "4 records read, 2 stored (2 of them new or changed), 2 rejected." in printed
    said = " ".join(printed.split())
    assert "Line 3: product_id: it is missing; send a text of 1 to 64 characters." in said
    assert "Line 5: the line has 3 cells, the header 4; leave a cell empty" in said
    assert rejects.name in printed.replace("\n", "")
    assert len(rejects.read_text(encoding="utf-8").splitlines()) == 2


def test_of_many_rejected_records_the_first_are_printed(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = "product,,nameless,shop\n" * 30
    file.write_text(f"kind,product_id,title,shop_name\n{wrong}", encoding="utf-8")
    assert tollway(str(file)) == 1
    printed = capsys.readouterr().out
    assert "30 records read, 0 stored (0 of them new or changed), 30 rejected." in printed
    assert [f"Line {line}:" in printed for line in (2, 11, 12)] == [True, True, False]


def test_of_a_spreadsheet_without_records_the_sheet_is_named(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book = openpyxl.Workbook()
    book.worksheets[0].append(["See the second sheet"])
    book.create_sheet("records").append(["kind"])
    other = file.with_name("figures.xlsx")
    book.save(other)
    assert tollway(str(other)) == 0
    assert "There is no record on its first visible sheet." in capsys.readouterr().out


def test_columns_that_are_not_known_are_named(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tollway(str(file)) == 1
    assert "Not used" not in capsys.readouterr().out
    line = {"kind": "product", "product_id": "p1", "title": "one", "shop_name": "shop"}
    lines = [
        line,
        {**line, "picture": "x", "a\nb": 1},
        line | {f"more{each}": 1 for each in range(9)},
    ]
    other = file.with_name("figures.jsonl")
    other.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    assert tollway(str(other)) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "no such column is known: picture, 'a\\nb', more0," in said
    assert said.endswith("more7, and 1 more.")
    file.write_text(
        "kind,product_id,title,shop_name,\nproduct,p1,one,shop,note\n", encoding="utf-8"
    )
    assert tollway(str(file)) == 0
    assert "no such column is known: ''." in capsys.readouterr().out


def test_a_clean_file_leaves_no_reject_file(file: Path, tmp_path: Path) -> None:
    file.write_text("kind,product_id,title,shop_name\nproduct,p1,one,shop\n", encoding="utf-8")
    before = set(tmp_path.iterdir())
    assert tollway(str(file)) == 0
    assert set(tmp_path.iterdir()) == before


def test_a_file_that_cannot_be_loaded_is_one_sentence_and_status_1(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert file.is_file()
    assert tollway(str(tmp_path / "nothing.csv")) == 1
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err.count("\n") == 1 and "cannot be read" in answer.err


def test_a_load_that_breaks_off_says_how_much_is_stored(
    figures: Figures, tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person would not know whether to load all of the file again, or the rest of it."""
    title = "t" * 400
    made = "".join(f"product,n{number},{title},shop\n" for number in range(5000))
    whole = gzip.compress(f"kind,product_id,title,shop_name\n{made}".encode(), 0, mtime=0)
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(whole[:-9])
    assert tollway(str(cut)) == 1
    answer = capsys.readouterr()
    stored = len(figures.rows("product"))
    assert 0 < stored < 5000
    assert answer.err == (
        f"cut.csv.gz is not a whole gzip file: pack it again. {stored:,} of its records are "
        "stored; load all of it again: those stay as they are.\n"
    )
    cut.write_bytes(whole[:5])
    assert tollway(str(cut)) == 1
    assert "stored" not in capsys.readouterr().err


def test_a_load_that_is_stopped_says_how_much_is_stored(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stopped_load(*arguments: Any) -> None:
        await load(*arguments)
        # Ctrl+C, before the load has reported what it did.
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(intake, "load", stopped_load)
    # As a program begins with it: asyncio replaces no other.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert tollway(str(file)) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == (
        "2 of its records are stored; load all of it again: those stay as they are.\nStopped.\n"
    )


@pytest.mark.parametrize("rejects", ["/dev/full", "missing/rejects.jsonl"])
def test_rejects_that_cannot_be_written_do_not_end_the_load(
    figures: Figures, file: Path, capsys: pytest.CaptureFixture[str], rejects: str
) -> None:
    assert tollway(str(file), "--rejects", rejects) == 1
    answer = capsys.readouterr()
    assert answer.err.startswith(f"What is rejected cannot be written to {rejects}: No s")
    assert answer.err.endswith(". The rest is loaded all the same.\n")
    assert answer.err.count("\n") == 1
    assert "4 records read, 2 stored (2 of them new or changed), 2 rejected." in answer.out
    assert "Line 5: " in answer.out and rejects not in answer.out
    assert [row[0] for row in figures.rows("product")] == ["p1", "p2"]
    assert tollway(str(file), "--rejects", rejects, "--json") == 1
    assert json.loads(capsys.readouterr().out)["rejects"] is None


def test_a_folder_is_named_as_one(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tollway(".") == 1
    assert capsys.readouterr().err == ". cannot be read: Is a directory.\n"


def test_the_file_to_be_loaded_is_not_taken_for_its_rejects(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = tmp_path / "same.csv"
    same.symlink_to(file)
    for rejects in (file, same):
        assert tollway(str(file), "--rejects", str(rejects)) == 2
        assert "is the file to be loaded" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == CONTENT


def test_a_file_of_something_else_is_not_replaced_by_rejects(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    precious, empty = tmp_path / "precious.jsonl", tmp_path / "empty"
    precious.write_text('{"product_id": "p1"}\n')
    assert tollway(str(file), "--rejects", str(precious)) == 2
    assert f"{precious} exists and has other content" in capsys.readouterr().err
    assert precious.read_text() == '{"product_id": "p1"}\n'
    empty.touch()
    # The second time it has the rejects of the first.
    for _ in range(2):
        assert tollway(str(file), "--rejects", str(empty)) == 1
        assert len(empty.read_text(encoding="utf-8").splitlines()) == 2
