"""Labels: the barcode can be scanned, the paper is right, nothing falls off the edge."""

import base64
import binascii
import io
import re
import zlib
from pathlib import Path
from zoneinfo import ZoneInfo

import pypdfium2
import pytest
import zxingcpp
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from PIL import Image

from tollway.carriers.labels.drawing import Drawing, bar_widths, find_fonts
from tollway.carriers.labels.formats import pdf, png, zpl
from tollway.carriers.labels.layout import (
    SIZES,
    Box,
    Frame,
    LabelSize,
    LabelStyle,
    Rule,
    Words,
    lay_out,
    style_of,
)
from tollway.carriers.labels.print_data import (
    Address,
    Label,
    Parcel,
    Party,
    Place,
    RoutingInfo,
    ShippingOption,
)
from tollway.settings import Settings

FONTS = find_fonts()
STYLE = LabelStyle(ZoneInfo("Asia/Shanghai"))
ROUTING = RoutingInfo(
    Place("新疆 库尔勒"), Place("库尔勒集包", "996A"), Place("杭州"), "996-A12-03"
)
ALL_SIZES = pytest.mark.parametrize("size", SIZES.values(), ids=lambda size: size.name)


def _label(
    size: LabelSize,
    number: str = "YT8800000000017",
    detail: str = "高新南七道 20 号",
    phone: str = "13812345678",
    parcel: Parcel | None = None,
) -> Label:
    sender = Address("浙江省", "杭州市", "余杭区", "五常街道文一西路 969 号 3 号楼 1201 室")
    recipient = Address("新疆维吾尔自治区", "巴音郭楞蒙古自治州", "库尔勒市", detail)
    return Label(
        waybill_code=number,
        order_sn="SN20261115000123",
        recipient=Party("王小明", phone, recipient),
        sender=Party("青禾生活旗舰店", "0571-88886666", sender),
        routing_info=ROUTING,
        shipping_option=ShippingOption("YTO", "圆通速递", size.waybill_type),
        issued_at_s=1_794_800_000,
        parcel=parcel,
    )


def _scanned(picture: Image.Image) -> set[tuple[str, str]]:
    return {(each.text, each.format.name) for each in zxingcpp.read_barcodes(picture)}


def _codes(number: str) -> set[tuple[str, str]]:
    """The number as bars, and as a square for telephones."""
    return {(number, "Code128"), (number, "QRCode")}


def _words(label: Label, style: LabelStyle = STYLE) -> list[str]:
    return [each.text for each in lay_out(label, style).elements if isinstance(each, Words)]


@pytest.mark.parametrize(
    ("size", "number"),
    list(zip(SIZES.values(), ["YT8800000000017", "773000000000001", "RB123456785GB"], strict=True)),
    ids=lambda each: getattr(each, "name", each),
)
def test_the_barcode_of_the_picture_is_the_number(size: LabelSize, number: str) -> None:
    picture = Image.open(io.BytesIO(png(_label(size, number), FONTS, STYLE)))
    assert _scanned(picture) == _codes(number)
    dots_per_mm = 300 / 25.4
    assert picture.size == (round(size.width_mm * dots_per_mm), round(size.height_mm * dots_per_mm))


@ALL_SIZES
def test_the_pdf_has_the_papers_size_and_can_be_scanned(size: LabelSize) -> None:
    document = pypdfium2.PdfDocument(pdf(_label(size), FONTS, STYLE))
    assert len(document) == 1
    page = document[0]
    width_mm, height_mm = (points / 72 * 25.4 for points in page.get_size())
    assert abs(width_mm - size.width_mm) < 0.1 and abs(height_mm - size.height_mm) < 0.1
    assert _scanned(page.render(scale=4).to_pil()) == _codes("YT8800000000017")
    document.close()


@ALL_SIZES
def test_zpl_has_the_text_as_dots_and_the_bars_as_a_command(size: LabelSize) -> None:
    text = zpl(_label(size), FONTS, STYLE).decode("ascii")
    assert text.startswith("^XA") and text.rstrip().endswith("^XZ")
    assert f"^PW{size.width_mm * 8}" in text and f"^LL{size.height_mm * 8}" in text
    assert re.search(r"\^BY\d\^BCN,\d+,N,N,N,A\^FDYT8800000000017\^FS", text)
    graphic = re.search(r"\^GFA,(\d+),\1,(\d+),:Z64:([^:]+):([0-9A-F]{4})\^FS", text)
    assert graphic is not None
    total, row_bytes, packed, check = graphic.groups()
    assert binascii.crc_hqx(packed.encode(), 0) == int(check, 16)
    rows = zlib.decompress(base64.b64decode(packed))
    assert len(rows) == int(total) == int(row_bytes) * size.height_mm * 8
    black = sum(byte.bit_count() for byte in rows) / (len(rows) * 8)
    assert 0.02 < black < 0.3


# Only what is long needs a place on every paper.
@pytest.mark.parametrize(
    ("size", "detail"),
    [
        *((size, detail) for size in SIZES.values() for detail in ("路" * 255, "W" * 255)),
        *((SIZES[1], detail) for detail in ("\n\t^XA\x1b", "😀" * 20)),
    ],
)
def test_long_and_odd_addresses_stay_on_the_paper(size: LabelSize, detail: str) -> None:
    label = _label(size, detail=detail)
    picture = Image.open(io.BytesIO(png(label, FONTS, STYLE)))
    assert _scanned(picture) == _codes("YT8800000000017")
    margin = 24
    inner = Image.new("L", (picture.width - 2 * margin, picture.height - 2 * margin), 255)
    picture.paste(inner, (margin, margin))
    assert picture.getextrema() == (255, 255), "something is drawn on the margin"
    assert "\x1b" not in zpl(label, FONTS, STYLE).decode("ascii")


@pytest.mark.parametrize("dots_per_mm", [8, 600 / 25.4])
@pytest.mark.parametrize("letter", ["路", "W"])
@ALL_SIZES
def test_the_longest_addresses_stay_in_their_rows(
    size: LabelSize, letter: str, dots_per_mm: float
) -> None:
    label = _label(size, detail=letter * 255, parcel=Parcel("碗" * 100, 1200))
    sender = replace(label.sender, name="店" * 39, address=label.recipient.address)
    label = replace(label, sender=sender, recipient=replace(label.recipient, name="王" * 39))
    layout = lay_out(label, STYLE)
    drawing = Drawing(layout, FONTS, dots_per_mm)
    words = [each for each in layout.elements if isinstance(each, Words)]
    for each in words:
        font, lines = drawing._fitted(each)
        assert drawing._fits(each.box, font.size, lines), each.text


@ALL_SIZES
def test_the_route_code_is_the_largest_and_all_of_an_express_label_is_there(
    size: LabelSize,
) -> None:
    parcel = Parcel("加厚纯棉四件套", 1250, "YT8800000000001")
    label = _label(size, parcel=parcel)
    words = [each for each in lay_out(label, STYLE).elements if isinstance(each, Words)]
    assert max(words, key=lambda each: each.size).text == "996-A12-03"
    said = "\n".join(each.text for each in words)
    for text in (
        *("圆通速递", "库尔勒集包", "996A", "2026-11-16 11:33:20", "已验视", "签收人", "签收时间"),
        *("子件 母单号 YT8800000000001", "物品 加厚纯棉四件套", "重量 1.25 kg", "SN20261115000123"),
    ):
        assert text in said
    alone = "\n".join(_words(_label(size)))
    assert not any(text in alone for text in ("母单号", "物品", "重量"))
    # What is signed or stamped has a box around it.
    frames = [each.box for each in lay_out(label, STYLE).elements if isinstance(each, Frame)]
    for text in ("已验视", "签收人", "签收时间"):
        (box,) = (each.box for each in words if each.text == text)
        assert any(_is_within(box, frame) for frame in frames)


@ALL_SIZES
def test_nothing_overlaps(size: LabelSize) -> None:
    label = _label(size, parcel=Parcel("物" * 100, 1, "YT8800000000001"))
    elements = lay_out(label, STYLE).elements
    boxes = [each.box for each in elements if not isinstance(each, Rule | Frame)]
    for at, one in enumerate(boxes):
        assert not [other for other in boxes[at + 1 :] if _overlap(one, other)]
    for rule in (each.box for each in elements if isinstance(each, Rule)):
        assert not [box for box in boxes if box.y < rule.y < box.y + box.height]


def _is_within(one: Box, other: Box) -> bool:
    return (
        one.x >= other.x
        and one.y >= other.y
        and one.x + one.width <= other.x + other.width + 0.01
        and one.y + one.height <= other.y + other.height + 0.01
    )


def _overlap(one: Box, other: Box) -> bool:
    return (
        one.x + one.width > other.x + 0.01
        and other.x + other.width > one.x + 0.01
        and one.y + one.height > other.y + 0.01
        and other.y + other.height > one.y + 0.01
    )


@pytest.mark.parametrize(
    ("phone", "shown"),
    [
        ("13812345678", "138****5678"),
        ("0571-88886666", "0571-****6666"),
        ("0571-88886666-801", "0571-****6666-801"),
        ("18412345678-1234", "184****5678-1234"),
        ("17531103964_6603", "175****3964_6603"),
        ("13812345678分机1234", "138****5678分机1234"),
        ("13812345678-1234#", "138****5678-1234#"),
        ("+852 6123 4567", "+852 **** 4567"),
        ("400-820-8820", "40*-***-8820"),
        ("0086 138 1234 5678", "0086 138 **** 5678"),
    ],
)
def test_the_receivers_phone_is_masked_unless_an_operator_wants_it_whole(
    phone: str, shown: str
) -> None:
    label = _label(SIZES[2], phone=phone)
    masked = "\n".join(_words(label))
    assert masked.count(f"王小明  {shown}") == 2 and f"王小明  {phone}" not in masked
    whole = _words(label, STYLE._replace(hides_phone=False))
    assert whole.count(f"王小明  {phone}") == 2


def test_what_an_operator_has_not_chosen_is_a_masked_phone_and_no_colour() -> None:
    assert style_of(Settings()) == STYLE == LabelStyle(STYLE.zone, True, False)
    chosen = style_of(Settings(label_phone="whole", label_colours="on"))
    assert (chosen.hides_phone, chosen.has_colours) == (False, True)


def test_a_label_is_black_unless_an_operator_wants_the_carriers_colour() -> None:
    coloured = STYLE._replace(has_colours=True)
    plain = Image.open(io.BytesIO(png(_label(SIZES[1]), FONTS, STYLE)))
    picture = Image.open(io.BytesIO(png(_label(SIZES[1]), FONTS, coloured)))
    assert (plain.mode, picture.mode) == ("L", "RGB")
    # On a thermal printer another colour would be a pattern of dots.
    drawn = [each for each in lay_out(_label(SIZES[1]), STYLE).elements if isinstance(each, Words)]
    assert {each.colour for each in drawn} == {"#000000"}
    assert (91, 42, 134) in {colour for _, colour in picture.getcolors(100_000) or []}
    document = pypdfium2.PdfDocument(pdf(_label(SIZES[1]), FONTS, coloured))
    assert _scanned(document[0].render(scale=4).to_pil()) == _codes("YT8800000000017")
    document.close()


@settings(max_examples=30)
@given(st.text("ABCXYZ0123456789", min_size=4, max_size=32))
def test_any_number_can_be_scanned(number: str) -> None:
    widths = bar_widths(number)
    dots = [shade for number, width in enumerate(widths) for shade in [number % 2 * 255] * width]
    row = bytes([255] * 10 + dots + [255] * 10)
    picture = Image.frombytes("L", (len(row), 1), row).resize(
        (len(row) * 3, 90), Image.Resampling.NEAREST
    )
    assert _scanned(picture) == {(number, "Code128")}


def test_texts_of_every_size_take_little_memory() -> None:
    """Texts that do not fit are tried in smaller sizes, and an open font takes 1 MiB of its own."""
    layout = lay_out(_label(SIZES[1], detail="路" * 255), STYLE)
    (address, *_) = [
        each for each in layout.elements if isinstance(each, Words) and "路" * 9 in each.text
    ]
    before_mib = _memory_mib()
    for dots_per_mm in range(8, 48):
        Drawing(layout, FONTS, dots_per_mm)._fitted(address)
    assert _memory_mib() - before_mib < 100


def _memory_mib() -> float:
    """Without files that are mapped."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024
