"""Spreadsheets that unpack to far more than they are: one sentence, and little is unpacked."""

import io
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import openpyxl
import pytest

from tollway.intake import spreadsheets
from tollway.intake.files import read_records
from tollway.intake.raw_records import IntakeError
from tollway.intake.spreadsheets import LimitedZipFile

SHEET, TEXTS, TYPES = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml", "[Content_Types].xml"
_OPEN = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
_CLOSE = b"</sheetData></worksheet>"
_ROW = b'<row r="1"><c r="A1" t="inlineStr"><is><t>a</t></is></c></row>'
_TEXTS = b'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
_KIB, _MIB = 1024, 1024 * 1024


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are reached soon; those of the gateway are some ten times larger."""
    monkeypatch.setattr(spreadsheets, "_TEXTS_MAX_BYTES", 512 * _KIB)
    monkeypatch.setattr(spreadsheets, "_ROW_MAX_BYTES", 128 * _KIB)
    monkeypatch.setattr(spreadsheets, "_ROWS_MAX", 1000)
    monkeypatch.setattr(spreadsheets, "_CELLS_MAX", 100_000)


def _pieces(begin: bytes, piece: bytes, size: int, end: bytes) -> Iterator[bytes]:
    yield begin
    many = piece * (_MIB // len(piece))
    for _ in range(size // len(many)):
        yield many
    yield end


def _file(path: Path, **parts: Iterator[bytes]) -> Path:
    """A spreadsheet with other parts in place of its own."""
    workbook, content = openpyxl.Workbook(), io.BytesIO()
    workbook.active.append(["a"])
    workbook.save(content)
    names = {"sheet": SHEET, "texts": TEXTS, "types": TYPES, "elsewhere": "xl/worksheets/t.xml"}
    with (
        zipfile.ZipFile(content) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new,
    ):
        replaced = {names[name]: pieces for name, pieces in parts.items()}
        for name in old.namelist():
            if name not in replaced:
                new.writestr(name, old.read(name))
        for name, pieces in replaced.items():
            with new.open(name, "w") as part:
                for piece in pieces:
                    part.write(piece)
    return path


def _problem(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is said of it, after little was unpacked."""
    unpacked = []
    count = LimitedZipFile.count
    monkeypatch.setattr(
        LimitedZipFile,
        "count",
        lambda parts, number: (unpacked.append(number), count(parts, number)),
    )
    with pytest.raises(IntakeError) as found:
        list(read_records(path))
    assert sum(unpacked) < _MIB
    return str(found.value)


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b'<row r="2"><c r="A2" t="inlineStr"><is><t>', b"a" * 1024),
        (b'<row r="2">', b"<c/>"),
    ],
    ids=["one long cell", "many cells"],
)
def test_one_huge_row_is_refused_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: bytes, piece: bytes
) -> None:
    rows = _pieces(_OPEN + _ROW + begin, piece, 4 * _MIB, _CLOSE)
    said = _problem(_file(tmp_path / "f.xlsx", sheet=rows), monkeypatch)
    assert said == (
        "f.xlsx has a row that is too large, after line 1: shorten it, or save the file as .csv."
    )


def test_what_follows_the_rows_may_be_large(tmp_path: Path) -> None:
    begin = _OPEN + _ROW + _ROW.replace(b"1", b"2") + b"</sheetData><hyperlinks>"
    links = _pieces(begin, b'<hyperlink ref="A2"/>', 4 * _MIB, b"</hyperlinks></worksheet>")
    records = read_records(_file(tmp_path / "f.xlsx", sheet=links))
    assert [each.values for each in records] == [{"a": "a"}]


def test_huge_texts_are_refused_wherever_they_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = lambda: _pieces(_TEXTS, b"<si><t>a</t></si>", 4 * _MIB, b"</sst>")  # noqa: E731
    too_large = "f.xlsx is too large for a spreadsheet: save it as .csv."
    assert (
        _problem(_file(tmp_path / "f.xlsx", types=_types(TEXTS), texts=texts()), monkeypatch)
        == too_large
    )
    moved = _file(tmp_path / "f.xlsx", types=_types("xl/worksheets/t.xml"), elsewhere=texts())
    assert _problem(moved, monkeypatch) == too_large


def _types(texts: str) -> Iterator[bytes]:
    main = "application/vnd.openxmlformats-officedocument.spreadsheetml."
    parts = {
        "xl/workbook.xml": f"{main}sheet.main+xml",
        SHEET: f"{main}worksheet+xml",
        texts: f"{main}sharedStrings+xml",
    }
    named = "".join(
        f'<Override PartName="/{name}" ContentType="{kind}"/>' for name, kind in parts.items()
    )
    kind = "application/vnd.openxmlformats-package.relationships+xml"
    start = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    yield f'{start}<Default Extension="rels" ContentType="{kind}"/>{named}</Types>'.encode()


def test_a_part_that_is_larger_than_it_says_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _file(tmp_path / "f.xlsx", types=_pieces(b"", b" " * 1024, 4 * _MIB, b""))
    content = path.read_bytes()
    size = (4 * _MIB).to_bytes(4, "little")
    assert size in content
    path.write_bytes(content.replace(size, (100).to_bytes(4, "little")))
    assert _problem(path, monkeypatch) == "f.xlsx is not a whole .xlsx file: save it again."


def test_rows_that_are_left_out_and_cells_far_out_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gap = _ROW + _ROW.replace(b'"1"', b'"1000000000000"').replace(b"A1", b"A1000000000000")
    assert "too large" in _problem(
        _file(tmp_path / "f.xlsx", sheet=iter([_OPEN, gap, _CLOSE])), monkeypatch
    )
    far = (b'<row r="%d"><c r="ZZZ%d"><v>1</v></c></row>' % (n, n) for n in range(2, 100))
    rows = iter([_OPEN, _ROW, *far, _CLOSE])
    assert "too large" in _problem(_file(tmp_path / "f.xlsx", sheet=rows), monkeypatch)


def test_texts_that_the_file_itself_makes_longer_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = b'<!DOCTYPE sst [<!ENTITY a "%s">]>' % (b"x" * _KIB)
    texts = iter([declared, _TEXTS, b"<si><t>&a;</t></si>" * 90, b"</sst>"])
    path = _file(tmp_path / "f.xlsx", types=_types(TEXTS), texts=texts)
    assert _problem(path, monkeypatch) == "f.xlsx is not a whole .xlsx file: save it again."


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_parts_that_are_packed_as_in_no_spreadsheet_are_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packing: int
) -> None:
    path = tmp_path / "f.xlsx"
    with (
        zipfile.ZipFile(_file(tmp_path / "usual.xlsx")) as old,
        zipfile.ZipFile(path, "w", packing) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert _problem(path, monkeypatch) == "f.xlsx is not a whole .xlsx file: save it again."


def test_rows_that_were_read_are_not_kept(tmp_path: Path) -> None:
    """Neither their cells, nor what is said of the whole row, such as its height."""
    height = b"1" * 100 * _KIB
    rows = (
        b'<row r="%d" ht="%s"><c r="A%d"><v>1</v></c></row>' % (n, height, n) for n in range(2, 200)
    )
    path = _file(tmp_path / "f.xlsx", sheet=iter([_OPEN, _ROW, *rows, _CLOSE]))
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_records(path)) == 198
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * _MIB
