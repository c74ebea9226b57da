"""Labels: the barcode can be scanned, the paper is right, nothing falls off the edge."""

import base64
import binascii
import io
import re
import zlib

import pypdfium2
import pytest
import zxingcpp
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tollway.carriers.labels.drawing import bar_widths
from tollway.carriers.labels.fonts import find_fonts
from tollway.carriers.labels.formats import pdf, png, zpl
from tollway.carriers.labels.layout import SIZES, LabelSize
from tollway.carriers.labels.print_data import Address, Label, Party, ShippingOption, route

FONTS = find_fonts()
ALL_SIZES = pytest.mark.parametrize("size", SIZES.values(), ids=lambda size: size.name)


def _label(
    size: LabelSize, number: str = "YT8800000000017", detail: str = "高新南七道 20 号"
) -> Label:
    sender = Address("浙江省", "杭州市", "余杭区", "五常街道文一西路 969 号 3 号楼 1201 室")
    recipient = Address("新疆维吾尔自治区", "巴音郭楞蒙古自治州", "库尔勒市", detail)
    return Label(
        waybill_code=number,
        order_sn="SN20261115000123",
        recipient=Party("王小明", "13812345678", recipient),
        sender=Party("青禾生活旗舰店", "0571-88886666", sender),
        routing_info=route(sender, recipient),
        shipping_option=ShippingOption("YTO", "圆通速递", size.waybill_type),
    )


def _scanned(picture: Image.Image) -> set[tuple[str, str]]:
    return {(each.text, each.format.name) for each in zxingcpp.read_barcodes(picture)}


@ALL_SIZES
@pytest.mark.parametrize("number", ["YT8800000000017", "773000000000001", "RB123456785GB"])
def test_the_barcode_of_the_picture_is_the_number(size: LabelSize, number: str) -> None:
    picture = Image.open(io.BytesIO(png(_label(size, number), FONTS)))
    assert _scanned(picture) == {(number, "Code128")}
    dots_per_mm = 300 / 25.4
    assert picture.size == (round(size.width_mm * dots_per_mm), round(size.height_mm * dots_per_mm))


@ALL_SIZES
def test_the_pdf_has_the_papers_size_and_can_be_scanned(size: LabelSize) -> None:
    document = pypdfium2.PdfDocument(pdf(_label(size), FONTS))
    assert len(document) == 1
    page = document[0]
    width_mm, height_mm = (points / 72 * 25.4 for points in page.get_size())
    assert abs(width_mm - size.width_mm) < 0.1 and abs(height_mm - size.height_mm) < 0.1
    assert _scanned(page.render(scale=4).to_pil()) == {("YT8800000000017", "Code128")}
    document.close()


@ALL_SIZES
def test_zpl_has_the_text_as_dots_and_the_bars_as_a_command(size: LabelSize) -> None:
    text = zpl(_label(size), FONTS).decode("ascii")
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


@ALL_SIZES
@pytest.mark.parametrize("detail", ["路" * 255, "W" * 255, "\n\t^XA\x1b", "😀" * 20])
def test_long_and_odd_addresses_stay_on_the_paper(size: LabelSize, detail: str) -> None:
    label = _label(size, detail=detail)
    picture = Image.open(io.BytesIO(png(label, FONTS)))
    assert _scanned(picture) == {("YT8800000000017", "Code128")}
    margin = 24
    inner = Image.new("L", (picture.width - 2 * margin, picture.height - 2 * margin), 255)
    picture.paste(inner, (margin, margin))
    assert picture.getextrema() == (255, 255), "something is drawn on the margin"
    assert "\x1b" not in zpl(label, FONTS).decode("ascii")


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
