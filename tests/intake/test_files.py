"""Files that are broken: what can be read is stored, the rest is reported with its line."""

import gzip
import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.intake.conftest import Figures
from tollway.intake.files import read_records
from tollway.intake.raw_records import IntakeError
from tollway.operations.product_analysis.storage import FigureLoader

HEADER = b"kind,product_id,title,shop_name\n"
ONE, TWO = b"product,p1,one,shop\n", b"product,p2,two,shop\n"
JSON_ONE = b'{"kind":"product","product_id":"p1","title":"one","shop_name":"shop"}\n'
JSON_TWO = JSON_ONE.replace(b"p1", b"p2")


def names(figures: Figures) -> list[object]:
    return [row[0] for row in figures.rows("product")]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"product\n", "the line has 1 cell, the header 4;"),
        (b"product,p3,three\n", "3 cells, the header 4"),
        (b"product,p3,three,shop,more\n", "5 cells, the header 4"),
        (b"product,p3,,shop\n", "title: it is missing; send a text of 1 to 500 characters."),
        (b"product,p3,\xff,shop\n", "title: it contains half of a surrogate pair, or bytes that"),
        (b"product,p3,a\0b,shop\n", "title: it contains a NUL character"),
        (b"product,p3,a\rb,shop\n", "not CSV"),
        (b"product,p3," + b"x" * 200_000 + b",shop\n", "not CSV"),
        (b"product,p3," + b"x" * 2_000_000 + b",shop\n", "over 1 MiB"),
    ],
    ids=lambda value: repr(value[:24]),
)
def test_a_bad_line_of_csv_is_reported_with_its_number(
    figures: Figures, bad: bytes, reason: str
) -> None:
    loaded = figures.load_bytes("f.csv", HEADER + ONE + b"\n" + bad + TWO)
    assert loaded.lines == [4]
    assert reason in loaded.rejects[0].reason
    assert names(figures) == ["p1", "p2"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"product,p3\n", "not a JSON object"),
        (b"[1, 2]\n", "not a JSON object"),
        (b"null\n", "not a JSON object"),
        (b'{"kind":"product"\n', "not a JSON object"),
        (b'{"kind":NaN}\n', "kind: it is none of these"),
        (b"[" * 10_000 + b"\n", "not a JSON object"),
        (b"[" * 100_000 + b"\n", "over 16,384 values"),
        (
            JSON_ONE.replace(b"one", b"\xff"),
            "title: it contains half of a surrogate pair, or bytes",
        ),
        (JSON_ONE.replace(b"one", b"\\ud800"), "title: it contains half of a surrogate pair"),
        (JSON_ONE.replace(b"one", b"\x01"), "not a JSON object"),
        (b'{"kind":"' + b"x" * 2_000_000 + b'"}\n', "over 1 MiB"),
        (b"{}\n", "kind"),
    ],
    ids=lambda value: repr(value[:24]),
)
def test_a_bad_line_of_json_is_reported_with_its_number(
    figures: Figures, bad: bytes, reason: str
) -> None:
    loaded = figures.load_bytes("f.jsonl", JSON_ONE + b"\n  \n" + bad + JSON_TWO)
    assert loaded.lines == [4]
    assert reason in loaded.rejects[0].reason
    assert names(figures) == ["p1", "p2"]


def test_quoted_cells_keep_their_commas_quotes_and_newlines(figures: Figures) -> None:
    row = b'product,p3,"a ""fine"", cup\r\nin two lines",shop\n'
    loaded = figures.load_bytes("f.csv", HEADER + row + TWO)
    assert loaded.rejects == []
    assert figures.rows("product")[1] == ("p3", 'a "fine", cup\r\nin two lines', "", "shop")


def test_columns_may_come_in_any_order_and_unknown_ones_are_ignored(figures: Figures) -> None:
    content = b"note,shop_name,title,kind,product_id\nx,shop,one,product,p1\n,shop,two,product,p2"
    assert figures.load_bytes("f.csv", content).rejects == []
    assert names(figures) == ["p1", "p2"]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("f.csv", b"", "no header line"),
        ("f.csv", b"\n", "no header line"),
        # The value of one of them would be lost.
        (
            "f.csv",
            b"kind,title, title\nproduct,one,\n",
            "Columns 2 and 3 of the file have",
        ),
        # A record, whose values are not to be in a message.
        (
            "f.csv",
            "张小明,1,张小明\n".encode(),
            "Columns 1 and 3 of the file have the same name: ",
        ),
        ("f.csv", b"\xff\xfe\n", "no header line"),
        ("f.xlsx", b"PK", "not a whole .xlsx file"),
        ("f.xls", b"", "neither .csv, .jsonl nor .json .*, nor .xlsx: save it"),
        ("f", b"", "neither .csv"),
        ("f.gz", gzip.compress(ONE, mtime=0), "neither .csv"),
        ("f.csv.gz", b"", "no header line"),
        ("f.csv.gz", HEADER + ONE, "not a whole gzip file"),
        ("f.csv.gz", gzip.compress(HEADER + ONE, mtime=0)[:-9], "not a whole gzip file"),
        ("f.jsonl.gz", gzip.compress(JSON_ONE * 50, mtime=0)[:-1], "not a whole gzip file"),
        ("f.jsonl.gz", gzip.compress(JSON_ONE, mtime=0)[:-8] + b"\0" * 8, "not a whole gzip file"),
        (
            "f.jsonl.gz",
            gzip.compress(JSON_ONE, mtime=0)[:12] + b"\xff" * 20,
            "not a whole gzip file",
        ),
        ("f.csv.gz", gzip.compress(HEADER + ONE, mtime=0) + b"more", "not a whole gzip file"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_refused_in_a_sentence(
    figures: Figures, name: str, content: bytes, problem: str
) -> None:
    with pytest.raises(IntakeError, match=problem):
        figures.load_bytes(name, content)


def test_a_file_cut_off_can_be_loaded_again_when_it_is_whole(figures: Figures) -> None:
    lines = [
        json.dumps({"kind": "product", "product_id": f"n{n}", "title": "t", "shop_name": "s"})
        for n in range(5000)
    ]
    whole = gzip.compress("\n".join(lines).encode(), compresslevel=0, mtime=0)
    with pytest.raises(IntakeError, match="not a whole gzip file"):
        figures.load_bytes("f.jsonl.gz", whole[: len(whole) * 9 // 10])
    before = len(names(figures))
    assert before > 0, "what came before the cut is stored"
    loaded = figures.load_bytes("f.jsonl.gz", whole)
    assert (loaded.result.stored, loaded.result.changed) == (5000, 5000 - before)


def test_a_file_that_is_not_there_is_refused_in_a_sentence(tmp_path: Path) -> None:
    for name in ("nothing.csv", "nothing.xlsx"):
        with pytest.raises(IntakeError, match="cannot be read: No such file"):
            list(read_records(tmp_path / name))


@pytest.mark.parametrize("name", ["folder.csv", "folder.xlsx"])
def test_a_folder_is_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(IntakeError, match="cannot be read: Is a directory"):
        list(read_records(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "record"),
    [("pipe.csv", ONE), ("pipe.jsonl", JSON_ONE), ("pipe.json", JSON_ONE + b",")],
)
def test_a_pipe_is_read_to_its_end(tmp_path: Path, name: str, record: bytes) -> None:
    path, many = tmp_path / name, 3000
    before, after = {
        "pipe.csv": (HEADER, b""),
        "pipe.jsonl": (b"", b""),
        "pipe.json": (b"[", JSON_ONE + b"]"),
    }[name]
    os.mkfifo(path)
    content = before + record * many + after
    writer = threading.Thread(target=path.write_bytes, args=(content,), daemon=True)
    writer.start()
    assert sum(1 for _ in read_records(path)) == many + (name == "pipe.json")
    writer.join(30)
    assert not writer.is_alive()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=200)
    | st.lists(
        st.sampled_from([b"kind", b"product", b",", b'"', b"\n", b"\r", b"{", b"}", b":", b"\0"])
    ).map(b"".join),
    suffix=st.sampled_from([".csv", ".jsonl", ".csv.gz", ".jsonl.gz"]),
    is_packed=st.booleans(),
)
def test_any_bytes_are_read_or_refused_in_a_sentence(
    tmp_path: Path, content: bytes, suffix: str, is_packed: bool
) -> None:
    path = tmp_path / f"any{suffix}"
    content = HEADER + content if "csv" in suffix else content
    path.write_bytes(gzip.compress(content, mtime=0) if is_packed else content)
    try:
        records = list(read_records(path))
    except IntakeError as error:
        assert str(error).endswith(".")
        return
    for record in records:
        assert (record.values is None) == bool(record.problem)
        if record.values is not None:
            try:
                FigureLoader().check(record.values, 0)
            except ValueError as error:
                assert str(error)


def test_a_quote_that_is_never_closed_costs_its_own_line_only(tmp_path: Path) -> None:
    path = tmp_path / "stray.csv"
    path.write_bytes(b'a,b\n"x,2\n3,4\n5,6\n')
    records = [(each.line, each.values) for each in read_records(path)]
    assert records == [(2, None), (3, {"a": "3", "b": "4"}), (4, {"a": "5", "b": "6"})]


@pytest.mark.parametrize(
    "rest",
    [b"3,4\n5,6\n", b'3,4\n5,"6"\n', b""],
    ids=["to the end", "to the next quote", "alone"],
)
def test_a_quote_that_is_never_closed_in_the_last_cell_takes_no_record_along(
    tmp_path: Path, rest: bytes
) -> None:
    path = tmp_path / "stray.csv"
    path.write_bytes(b'a,b\n1,"x\n' + rest)
    records = [(each.line, each.values) for each in read_records(path)]
    after = [(3, {"a": "3", "b": "4"}), (4, {"a": "5", "b": "6"})]
    assert records == [(2, None), *(after if rest else [])]


def test_quotes_within_a_line_are_taken_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "inches.csv"
    path.write_bytes(b'a,b\n5" pipe,"x"y\n')
    assert [each.values for each in read_records(path)] == [{"a": '5" pipe', "b": "xy"}]


def test_a_number_that_is_written_as_a_formula_is_its_text(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(b'a,b\n="0123","=""0456"""\n"=1+1",x="y"\n')
    records = [each.values for each in read_records(path)]
    assert records == [{"a": "0123", "b": "0456"}, {"a": "=1+1", "b": 'x="y"'}]


@pytest.mark.parametrize(
    "rounded",
    ["1.23457E+17", "1E+12", "1.23457E+11", "1.2E+20", "1e+100", "1.2345678901234568e+17"],
)
def test_an_id_that_a_spreadsheet_rounded_is_rejected(figures: Figures, rounded: str) -> None:
    # Stored, several products would become one.
    rows = f"product,{rounded},one,shop\nproduct,p2,E+12,shop\n"
    (reject,) = figures.load_bytes("f.csv", HEADER + rows.encode()).rejects
    assert (reject.line, reject.reason) == (
        2,
        "product_id: it is a long number that a spreadsheet rounded, as 1.2E+17; load the "
        "original file, or format the column as text before saving.",
    )
    assert names(figures) == ["p2"]


@pytest.mark.parametrize("short", ["1e+05", "1E+00", "1.5E+10", "1e+010"])
def test_a_number_with_a_small_exponent_is_not_taken_for_rounded(
    figures: Figures, short: str
) -> None:
    # Spreadsheets write numbers of up to 11 digits in full, so it means exactly what it says.
    names_of = b"kind,product_id,day,visitors,buyers,payment\n"
    rows = f"day,{short},2026-01-02,1,1,1\nday,p2,2026-01-02,{short},1,1\n"
    (reject,) = figures.load_bytes("f.csv", names_of + rows.encode()).rejects
    assert reject.line == 3 and reject.reason.startswith("visitors: ")
    assert "spreadsheet" not in reject.reason
    assert [row[0] for row in figures.rows("product_day")] == [short]


def test_spaces_around_cells_are_dropped_and_lines_of_empty_cells_skipped(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes("a,b\n2511\t, x y\u3000\n,\n , \n3,\n".encode())
    records = [(each.line, each.values) for each in read_records(path)]
    assert records == [(2, {"a": "2511", "b": "x y"}), (5, {"a": "3"})]


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=;\r"])
def test_a_line_that_tells_excel_the_separator_is_no_header(tmp_path: Path, first: str) -> None:
    path = tmp_path / "export.csv"
    path.write_text(f"{first}\na,x;b\n1;2\n")
    assert [(each.line, each.values) for each in read_records(path)] == [
        (3, {"a,x": "1", "b": "2"})
    ]


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_header_that_cannot_be_read_is_one_sentence(tmp_path: Path, quote: str) -> None:
    path = tmp_path / "mac.csv"
    path.write_text(f"{quote}kind{quote},product_id\rproduct,p1\r", newline="")
    with pytest.raises(IntakeError, match=r"header .* carriage return alone"):
        list(read_records(path))


def test_a_second_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "joined.csv"
    path.write_bytes(b"\xef\xbb\xbf\xef\xbb\xbfa,b\n1,2\n")
    assert [each.values for each in read_records(path)] == [{"a": "1", "b": "2"}]


def test_a_header_whose_quote_is_never_closed_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "open.csv"
    path.write_bytes(b'a,"b\n' + b"1,2\n" * 1000)
    with pytest.raises(IntakeError, match="no header line"):
        list(read_records(path))


@pytest.mark.parametrize("cell", [b'"x"', b'"x, y"', b'"x\ny"', b'"""x"""', b'"","x"'])
def test_a_header_whose_quote_is_never_closed_takes_no_record_along(
    tmp_path: Path, cell: bytes
) -> None:
    path = tmp_path / "open.csv"
    path.write_bytes(b'a,"note\n1,' + cell + b"\n2,y\n")
    with pytest.raises(IntakeError, match="no header line"):
        list(read_records(path))


def test_quotes_within_the_header_line_are_taken_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "inches.csv"
    path.write_bytes(b'5" pipe,"x"y\n1,2\n')
    assert [each.values for each in read_records(path)] == [{'5" pipe': "1", "xy": "2"}]


def test_a_byte_order_mark_does_not_shift_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"x":"' + b"a" * (2**20 + 100) + b'"}\n{}\n')
    assert [(each.line, bool(each.problem)) for each in read_records(path)] == [
        (1, True),
        (2, False),
    ]
