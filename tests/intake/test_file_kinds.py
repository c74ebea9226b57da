"""Files as people's programs write them: encodings of text, JSON arrays, spreadsheets."""

import codecs
import csv
import gzip
import io
import json
import os
import zipfile
from datetime import date, datetime
from pathlib import Path
from tempfile import TemporaryFile

import openpyxl
import pytest

from tests.intake.conftest import Figures, Loaded
from tests.intake.test_product_figures import (
    GOOD_CSV,
    GOOD_JSON,
    HEADER,
    STORED,
    jsonl,
)
from tollway.intake import loading
from tollway.intake.files import read_records
from tollway.intake.loading import checked_chunks
from tollway.intake.raw_records import IntakeError
from tollway.intake.record_problems import RecordError
from tollway.intake.text_encodings import PIECE_BYTES
from tollway.operations.product_analysis.records import checked_figure
from tollway.operations.product_analysis.storage import FigureLoader

TEXT = "\n".join([HEADER, *GOOD_CSV, ""])
TITLES = "kind,product_id,title,shop_name\n"
# A file of people far away: some 250,000 bytes of ASCII before the first other character.
ASCII = "".join(
    f"product,n{n},a plain title of many letters and no other,shop\n" for n in range(5000)
)


def assert_all_stored(figures: Figures, loaded: Loaded) -> None:
    assert loaded.rejects == []
    assert {table: figures.rows(table) for table in STORED} == STORED


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode("gbk"),
        TEXT.encode("gb18030"),
        TEXT.encode("utf-8-sig"),
        TEXT.encode("utf-16"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
        # As Excel saves "Unicode Text".
        TEXT.replace(",", "\t").replace("\n", "\r\n").encode("utf-16"),
        TEXT.replace(",", ";").encode("gbk"),
    ],
    ids=lambda content: repr(content[:8]),
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_csv_of_every_encoding_stores_the_same(
    figures: Figures, content: bytes, is_packed: bool
) -> None:
    name = "f.csv.gz" if is_packed else "f.csv"
    loaded = figures.load_bytes(name, gzip.compress(content) if is_packed else content)
    assert_all_stored(figures, loaded)


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize("name", ["f.jsonl", "f.json"])
def test_json_of_every_encoding_stores_the_same(figures: Figures, encoding: str, name: str) -> None:
    lines = jsonl(*GOOD_JSON).decode()
    array = json.dumps(GOOD_JSON, ensure_ascii=False, indent=2)
    content = lines if name == "f.jsonl" else array
    assert_all_stored(figures, figures.load_bytes(name, content.encode(encoding)))


@pytest.mark.parametrize("encoding", ["gbk", "utf-8"])
def test_the_encoding_shows_wherever_the_first_character_beyond_ascii_stands(
    figures: Figures, encoding: str
) -> None:
    content = TITLES + ASCII * 2 + "product,last,保温杯,小店\n"
    assert figures.load_bytes("f.csv", content.encode(encoding)).rejects == []
    assert figures.store.run("SELECT title FROM product WHERE product_id = 'last'") == [("保温杯",)]


def test_the_encoding_shows_where_the_first_character_is_in_two_pieces(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    first = "a\n".ljust(PIECE_BYTES - 1, "x") + "中\n保温杯\n"
    path.write_bytes(first.encode("gbk"))
    *_, last = read_records(path)
    assert last.values == {"a": "保温杯"}


def test_a_mistake_in_utf8_does_not_make_it_another_encoding(figures: Figures) -> None:
    good = "".join(f"product,g{n},中文标题,小店\n" for n in range(20))
    content = (TITLES + good).encode() + b"product,p1,\xe4\xb8,shop\n" + good.encode()
    loaded = figures.load_bytes("f.csv", content)
    assert loaded.lines == [22]
    assert set(figures.store.run("SELECT title FROM product")) == {("中文标题",)}


@pytest.mark.parametrize(
    ("bad", "kept"),
    [
        (b"product,p3,\xff\xfe,shop\r\n", "product,p3,\\xff\\xfe,shop"),
        (b'product, p3 ,"a ""b""",  ,x\n', 'product, p3 ,"a ""b""",  ,x'),
        (b'product,p3,"two\r\nlines",\n', 'product,p3,"two\r\nlines",'),
        (b"product,p3,a\0b,shop\n", "product,p3,a\0b,shop"),
    ],
)
def test_a_rejected_line_is_kept_as_it_was(figures: Figures, bad: bytes, kept: str) -> None:
    rest = "product,p4,中文标题中文标题,小店\n".encode()
    loaded = figures.load_bytes("f.csv", TITLES.encode() + bad + rest)
    assert [reject.record for reject in loaded.rejects] == [kept]


def test_a_line_of_another_encoding_is_kept_as_its_text(figures: Figures) -> None:
    content = (TITLES + "product,,保温杯,小店\nproduct,p4,保温杯,小店\n").encode("gbk")
    (reject,) = figures.load_bytes("f.csv", content).rejects
    assert (reject.line, reject.record) == (2, "product,,保温杯,小店")


def test_of_a_line_that_is_too_long_the_beginning_is_kept(figures: Figures) -> None:
    content = jsonl({"kind": "x" * 2_000_000}, GOOD_JSON[0])
    (reject,) = figures.load_bytes("f.jsonl", content).rejects
    assert "over 1 MiB" in reject.reason
    assert reject.record.startswith('{"kind": "xxx') and len(reject.record) == 4096


@pytest.mark.parametrize("spaces", [None, 2])
def test_a_json_array_is_read_record_by_record(figures: Figures, spaces: int | None) -> None:
    records = [*GOOD_JSON[:2], {"kind": "\ud800"}, 7, {"kind": "day"}, *GOOD_JSON[2:]]
    content = json.dumps(records, indent=spaces, separators=None if spaces else (",", ":"))
    loaded = figures.load_bytes("f.json", content.encode())
    assert [reject.record for reject in loaded.rejects] == [
        json.dumps(each, indent=spaces and 2, separators=None if spaces else (",", ":")).replace(
            "\n", "\n" + " " * (spaces or 0)
        )
        for each in records[2:5]
    ]
    lines = content.splitlines()
    for reject in loaded.rejects:
        assert reject.record.splitlines()[0] in lines[reject.line - 1]
    assert {table: figures.rows(table) for table in STORED} == STORED


def test_a_json_array_is_read_in_pieces_of_any_size(tmp_path: Path) -> None:
    many = [{"text": "中" * size, "number": size} for size in (0, 10, 100_000, 300_000, 1)]
    path = tmp_path / "f.json"
    path.write_text(json.dumps(many * 3, ensure_ascii=False), encoding="utf-8")
    assert [record.values for record in read_records(path)] == many * 3


@pytest.mark.parametrize(
    ("content", "records", "line"),
    [
        (b"", 0, 1),
        (b"{}", 0, 1),
        (b"[", 0, 1),
        (b"[{}\n", 0, 1),
        (b"[{},\n", 1, 2),
        (b"[{},\n{]", 1, 2),
        (b"[{}\n{}]", 1, 2),
        (b"[{},\n\n]", 1, 3),
        (b"[{}]\n[]", 1, 2),
        (b"[" * 100_000, 0, 1),
        (b'[{},\n{"a": "' + b"x" * 3_000_000 + b'"}]', 1, 2),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_where_an_array_breaks_off_is_reported(
    tmp_path: Path, content: bytes, records: int, line: int
) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(content)
    read = []
    with pytest.raises(IntakeError, match=f"line {line} cannot be read. The {records} records"):
        for each in read_records(path):
            read.append(each)
    assert len(read) == records


def test_an_empty_array_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_bytes(b" [\n ] \n")
    assert list(read_records(tmp_path / "f.json")) == []


def spreadsheet(*rows: list[object], more_sheets: bool = False) -> bytes:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    for row in rows:
        sheet.append(row)
    if more_sheets:
        workbook.create_sheet("notes").append(["nothing", "to", "read"])
    content = io.BytesIO()
    workbook.save(content)
    return content.getvalue()


def test_a_spreadsheet_stores_the_same(figures: Figures) -> None:
    rows: list[list[object]] = [list(row) for row in csv.reader([HEADER, *GOOD_CSV])]
    loaded = figures.load_bytes("f.xlsx", spreadsheet(*rows, more_sheets=True))
    assert_all_stored(figures, loaded)


def test_numbers_and_dates_of_a_spreadsheet_are_read_as_they_are_shown(figures: Figures) -> None:
    names = HEADER.split(",")
    day: dict[str, object] = {
        "kind": "day",
        "product_id": 880012001.0,
        "day": datetime(2026, 1, 31),  # noqa: DTZ001
        "visitors": 100,
        "buyers": 4.0,
        "payment": 157.09999999999999,
        "collections": 7,
    }
    later = {**day, "day": date(2026, 2, 1), "payment": 12}
    rows = [[record.get(name) for name in names] for record in (day, later)]
    # With empty cells and rows besides, as a sheet has them.
    content = spreadsheet([*names, None, None], [*rows[0], None, None], [], rows[1][:13], [None])
    assert figures.load_bytes("f.xlsx", content).rejects == []
    assert figures.rows("product_day") == [
        ("880012001", 20260131, 100, 4, 15710, 7, 0, 0),
        ("880012001", 20260201, 100, 4, 1200, 7, 0, 0),
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (["product", 123456789012345678, "t", "s"], "product_id: it is a number of over 15 digits"),
        (["product", "p1", "#N/A", "s"], "title: its formula has the error #N/A"),
        (["product", "p1", None, "s"], "title: it is missing; send a text of 1 to 500 characters."),
        (["product", "p1", "t", "s", "more"], "the line has 5 cells, the header 4"),
        (["product", "p1", True, None], "shop_name: it is missing"),
    ],
)
def test_a_wrong_row_of_a_spreadsheet_is_rejected_with_its_number(
    figures: Figures, row: list[object], reason: str
) -> None:
    good = ["product", "good", "t", "s"]
    content = spreadsheet(TITLES.strip().split(","), good, row, good)
    (reject,) = figures.load_bytes("f.xlsx", content).rejects
    assert reject.line == 3 and reject.reason.startswith(reason)
    assert reject.record.startswith("product,")
    assert [stored[0] for stored in figures.rows("product")] == ["good"]


def altered(whole: bytes, old: bytes, new: bytes) -> bytes:
    """A spreadsheet with another text in place of one."""
    content, found = io.BytesIO(), 0
    with (
        zipfile.ZipFile(io.BytesIO(whole)) as before,
        zipfile.ZipFile(content, "w") as after,
    ):
        for name in before.namelist():
            part = before.read(name)
            found += part.count(old)
            after.writestr(name, part.replace(old, new))
    assert found
    return content.getvalue()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'ref="A1:D4"', b'ref="A1"'),
        (b"<fill><patternFill /></fill>", b"<fill/>"),
        (b"<pageMargins ", b'<pageSetup orientation="odd"/><pageMargins '),
    ],
    ids=["wrong size", "empty style", "odd page"],
)
def test_a_spreadsheet_that_is_wrong_beside_its_cells_is_read_whole(
    figures: Figures, old: bytes, new: bytes
) -> None:
    whole = spreadsheet(TITLES.strip().split(","), *(["product", f"p{n}", "t", "s"] for n in "123"))
    assert figures.load_bytes("f.xlsx", altered(whole, old, new)).result.stored == 3


def test_a_date_in_a_format_of_chinese_excel_is_a_date(tmp_path: Path) -> None:
    workbook, content = openpyxl.Workbook(), io.BytesIO()
    workbook.active.append(["day"])
    workbook.active.append([date(2026, 1, 31)])
    workbook.active["A2"].number_format = "mm-dd-yy"
    workbook.save(content)
    path = tmp_path / "f.xlsx"
    path.write_bytes(altered(content.getvalue(), b'numFmtId="14"', b'numFmtId="31"'))
    assert [record.values for record in read_records(path)] == [{"day": "2026-01-31"}]


def test_a_spreadsheet_whose_rows_are_out_of_order_is_refused(tmp_path: Path) -> None:
    whole = spreadsheet(["a"], ["1"], ["2"])
    (tmp_path / "f.xlsx").write_bytes(altered(whole, b'<row r="3"', b'<row r="2"'))
    with pytest.raises(IntakeError, match="not a whole"):
        list(read_records(tmp_path / "f.xlsx"))


def test_a_date_as_excel_saves_it_is_a_date() -> None:
    sent = {"kind": "day", "product_id": "p", "visitors": "1", "buyers": "1", "payment": "1"}
    for day in ("2026/1/31", "2026/01/31"):
        assert checked_figure({**sent, "day": day}) == checked_figure({**sent, "day": "2026-01-31"})
    with pytest.raises(RecordError, match="not a date of the calendar"):
        checked_figure({**sent, "day": "2026/2/30"})


def test_a_carriage_return_in_a_spreadsheet_is_no_word(tmp_path: Path) -> None:
    (tmp_path / "f.xlsx").write_bytes(spreadsheet(["a"], ["one_x000D_\ntwo _x0041_"]))
    assert [each.values for each in read_records(tmp_path / "f.xlsx")] == [
        {"a": "one\r\ntwo _x0041_"}
    ]


def test_a_lost_value_in_a_column_that_is_not_used_does_not_matter(figures: Figures) -> None:
    names = [*TITLES.strip().split(","), "payment_no", "total"]
    row = ["product", "p1", "t", "s", 123456789012345678, "#REF!"]
    assert figures.load_bytes("f.xlsx", spreadsheet(names, row)).rejects == []


def test_a_formula_without_a_value_is_not_an_empty_cell(figures: Figures) -> None:
    names = [*TITLES.strip().split(","), "picture_url", "note"]
    row = ["product", "p1", "t", "s", '="https://img.example/"&1', "=1+1"]
    (reject,) = figures.load_bytes("f.xlsx", spreadsheet(names, row)).rejects
    assert reject.line == 2
    assert reject.reason == (
        "picture_url: its formula has no value yet; open the file in a spreadsheet program and "
        "save it."
    )


def test_a_row_of_formulas_without_a_value_is_an_empty_row(figures: Figures) -> None:
    # Templates have a column of formulas, filled down beyond the last record.
    names, row = [*TITLES.strip().split(","), "note"], ["product", "p1", "t", "s", "=1+1"]
    empty: list[object] = [None, None, None, None, "=1+1"]
    loaded = figures.load_bytes("f.xlsx", spreadsheet(names, empty, row, empty, empty))
    assert (loaded.rejects, loaded.result.read, loaded.result.stored) == ([], 1, 1)


def test_a_formula_whose_value_is_an_empty_text_is_an_empty_cell(tmp_path: Path) -> None:
    whole = spreadsheet(["a", "b"], ["1", '=""'])
    content = altered(whole, b'<c r="B2">', b'<c r="B2" t="str">')
    (tmp_path / "f.xlsx").write_bytes(content)
    assert [each.values for each in read_records(tmp_path / "f.xlsx")] == [{"a": "1"}]


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_sheets_that_are_hidden_are_passed_over(tmp_path: Path, state: str) -> None:
    workbook, content = openpyxl.Workbook(), io.BytesIO()
    workbook.active.append(["choices"])
    workbook.active.sheet_state = state
    for name in ("orders", "more"):
        workbook.create_sheet(name).append([name])
        workbook[name].append(["1"])
    workbook.active = 1
    workbook.save(content)
    (tmp_path / "f.xlsx").write_bytes(content.getvalue())
    assert [each.values for each in read_records(tmp_path / "f.xlsx")] == [{"orders": "1"}]


@pytest.mark.parametrize("cut", [10, 2000, -30])
def test_a_broken_spreadsheet_is_one_sentence(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "f.xlsx"
    path.write_bytes(spreadsheet(["a"], ["b"])[:cut])
    with pytest.raises(IntakeError, match=r"^f\.xlsx is not a whole \.xlsx file: save it again\.$"):
        list(read_records(path))


def test_a_spreadsheet_with_a_password_is_named_as_that(tmp_path: Path) -> None:
    path = tmp_path / "f.xlsx"
    path.write_bytes(bytes.fromhex("D0CF11E0A1B11AE1") + bytes(504))
    with pytest.raises(IntakeError, match=r"^f\.xlsx has a password, or is an \.xls file: save it"):
        list(read_records(path))


def test_a_spreadsheet_in_a_pipe_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "f.xlsx"
    os.mkfifo(path)
    # Open on both sides and filled, so that a second reading would not wait for a writer either.
    pipe = os.open(path, os.O_RDWR)
    try:
        os.write(pipe, spreadsheet(["a"], ["b"]))
        with pytest.raises(IntakeError, match=r"^f\.xlsx is not a regular file: save it to disk"):
            list(read_records(path))
    finally:
        os.close(pipe)


def test_a_spreadsheet_that_has_no_name_on_disk_is_read() -> None:
    with TemporaryFile() as file:
        file.write(spreadsheet(["a"], ["b"]))
        file.flush()
        records = list(read_records(Path(f"/proc/self/fd/{file.fileno()}"), "f.xlsx"))
    assert [each.values for each in records] == [{"a": "b"}]


@pytest.mark.parametrize("suffix", ["xlsx", "csv"])
def test_the_name_of_a_column_may_have_line_breaks(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"f.{suffix}"
    names, row = ["a", "备注\n（选填）", "c"], ["1", "2", "3"]
    text = io.StringIO()
    csv.writer(text).writerows([names, row])
    path.write_bytes(spreadsheet(names, row) if suffix == "xlsx" else text.getvalue().encode())
    (record,) = read_records(path)
    assert record.values == {"a": "1", "备注 （选填）": "2", "c": "3"}
    assert record.line == (2 if suffix == "xlsx" else 3)


def test_large_records_do_not_pile_up_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_CHUNK_BYTES", 1000)
    path = tmp_path / "f.jsonl"
    path.write_bytes(jsonl(*({"kind": "x" * 400} for _ in range(9))))
    chunks = list(checked_chunks(FigureLoader(), read_records(path)))
    assert [len(chunk.rejects) for chunk in chunks] == [3, 3, 3]
