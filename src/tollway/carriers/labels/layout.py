"""What a label has, and where, on each of the three kinds of paper."""

import re
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tollway.carriers.labels.print_data import Label, Parcel, Party
from tollway.contract.fields import is_phone
from tollway.settings import Settings


class LabelSize(NamedTuple):
    """Paper, by the waybill_type that asks for it."""

    waybill_type: int
    name: str
    width_mm: int
    height_mm: int


# Where the gateway describes each kind of paper; print data names it as the label's template.
TEMPLATES_PATH = "/templates/waybill"

SIZES = {
    1: LabelSize(1, "single-part", 76, 130),
    2: LabelSize(2, "two-part", 100, 180),
    3: LabelSize(3, "other", 100, 150),
}


class LabelStyle(NamedTuple):
    """What an operator can choose: see the settings `timezone`, `label_phone`, `label_colours`."""

    zone: ZoneInfo
    hides_phone: bool = True
    has_colours: bool = False


def style_of(settings: Settings) -> LabelStyle:
    return LabelStyle(
        settings.zone, settings.label_phone == "masked", settings.label_colours == "on"
    )


# The colours of the carriers' own labels; thermal printers have only black.
_COLOURS = {
    "YTO": "#5b2a86",
    "ZTO": "#2b6cc4",
    "STO": "#e86b10",
    "YUNDA": "#b8860b",
    "JTSD": "#d0021b",
    "SF": "#c40d1e",
    "EMS": "#00694b",
    "POSTB": "#00694b",
    "YZXB": "#00694b",
    "JD": "#d7151a",
    "DBKD": "#1b3f94",
}
_BLACK = "#000000"
_MARGIN = 3.0
_PAD = 1.2
_LONG_ADDRESS = 150


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    def inside(self, left: float = _PAD, pad: float = _PAD) -> "Box":
        return Box(self.x + left, self.y + pad, self.width - left - pad, self.height - 2 * pad)

    def split(self, left_width: float) -> tuple["Box", "Box"]:
        left = self._replace(width=left_width)
        return left, self._replace(x=self.x + left_width, width=self.width - left_width)


class Words(NamedTuple):
    """A text, as large as fits into its box, but not larger than `size`."""

    box: Box
    text: str
    size: float
    is_bold: bool = False
    is_centred: bool = False
    # White on black.
    is_inverted: bool = False
    colour: str = _BLACK


class Bars(NamedTuple):
    """A text as Code 128."""

    box: Box
    text: str


class Matrix(NamedTuple):
    """A text as a QR code, in a square."""

    box: Box
    text: str


class Rule(NamedTuple):
    """A line from left to right; a dashed one is where the paper is torn."""

    box: Box
    is_dashed: bool = False


class Frame(NamedTuple):
    """A box to write or stamp into."""

    box: Box


Element = Words | Bars | Matrix | Rule | Frame


class Layout(NamedTuple):
    size: LabelSize
    elements: tuple[Element, ...]


def lay_out(label: Label, style: LabelStyle) -> Layout:
    size = SIZES[label.shipping_option.waybill_type]
    page = _Page(size.width_mm)
    # The heights of a single-part label, stretched to the paper; a second part has a fixed share.
    main_height = size.height_mm * (0.66 if size.name == "two-part" else 1.0) - 2 * _MARGIN
    _main_part(page, label, style, main_height / 124)
    if size.name == "two-part":
        page.rule(is_dashed=True)
        left = size.height_mm - _MARGIN - page.y
        _second_part(page, label, style, left / 100)
    return Layout(size, tuple(page.elements))


class _Page:
    """Fills a label from top to bottom, row by row."""

    def __init__(self, width_mm: float) -> None:
        self.elements: list[Element] = []
        self.y = _MARGIN
        self._width = width_mm - 2 * _MARGIN

    def row(self, height: float) -> Box:
        box = Box(_MARGIN, self.y, self._width, height)
        self.y += height
        return box

    def rule(self, *, is_dashed: bool = False) -> None:
        self.elements.append(Rule(Box(_MARGIN, self.y, self._width, 0), is_dashed))

    def words(self, box: Box, text: str, size: float, *, is_bold: bool = False) -> None:
        self.elements.append(Words(box.inside(), text, size, is_bold))

    def mark(self, box: Box, text: str, size: float, *, is_inverted: bool = False) -> None:
        """One or two characters that name a row."""
        words = Words(box.inside(), text, size, True, True, is_inverted)
        self.elements.append(words)

    def barcode(self, height: float, text: str) -> None:
        box = self.row(height)
        digits = min(6.0, height / 3)
        bars = Box(box.x, box.y + _PAD, box.width, height - digits - 2 * _PAD)
        below = Box(box.x, box.y + height - digits - _PAD / 2, box.width, digits)
        spaced = " ".join(text[at : at + 4] for at in range(0, len(text), 4))
        self.elements.append(Bars(bars, text))
        self.elements.append(Words(below, spaced, digits * 0.8, is_bold=True, is_centred=True))

    def party(self, height: float, mark: str, party: Party, phone: str, size: float) -> None:
        """Name, phone and address, after a large mark for receiver or sender."""
        marked, box = self.row(height).split(10.0)
        self.mark(marked, mark, min(7.0, height / 2))
        inner = box.inside(left=0)
        address = str(party.address)
        # A long address needs the height more than the name does.
        share = 0.38 if len(address) <= _LONG_ADDRESS else 0.28
        name_height = min(inner.height * share, size * 1.5)
        name = Box(inner.x, inner.y, inner.width, name_height)
        self.elements.append(Words(name, f"{party.name}  {phone}", size, is_bold=True))
        street = Box(inner.x, inner.y + name_height, inner.width, inner.height - name_height)
        self.elements.append(Words(street, address, size * 0.9))


def _main_part(page: _Page, label: Label, style: LabelStyle, unit: float) -> None:
    """All that a carrier needs; the rows add up to 124 units."""
    _head(page, label, style, 10 * unit)
    page.rule()
    routing = label.routing_info
    route = routing.route_code or routing.sortation.name
    page.elements.append(Words(page.row(17 * unit).inside(pad=0.4), route, 14, True, True))
    page.rule()
    _consolidation(page, label, 10 * unit)
    page.rule()
    to = label.recipient
    page.party(25 * unit, "收", to, _phone(to.mobile, style), 4.5)
    page.rule()
    page.party(15 * unit, "寄", label.sender, label.sender.mobile, 3.2)
    page.rule()
    page.barcode(21 * unit, label.waybill_code)
    page.rule()
    _delivery(page, label, 18 * unit)
    page.rule()
    page.words(page.row(8 * unit), _contents(label), 2.9)


def _second_part(page: _Page, label: Label, style: LabelStyle, unit: float) -> None:
    """What the receiver keeps; the rows add up to 100 units."""
    _head(page, label, style, 14 * unit)
    page.barcode(32 * unit, label.waybill_code)
    page.rule()
    to = label.recipient
    page.party(22 * unit, "收", to, _phone(to.mobile, style), 3.4)
    page.party(18 * unit, "寄", label.sender, label.sender.mobile, 3.2)
    page.rule()
    page.words(page.row(14 * unit), _contents(label), 3.0)


def _head(page: _Page, label: Label, style: LabelStyle, height: float) -> None:
    """The carrier and the time; for a further parcel also the number of the first."""
    box = page.row(height)
    left, right = box.split(box.width * 0.45)
    option = label.shipping_option
    colour = _COLOURS.get(option.code, _BLACK) if style.has_colours else _BLACK
    page.elements.append(Words(left.inside(), option.title, 6.5, is_bold=True, colour=colour))
    parent = label.parcel and label.parcel.parent_waybill_code
    top, below = _halves(right) if parent else (right, None)
    if label.issued_at_s:
        at = datetime.fromtimestamp(label.issued_at_s, style.zone)
        page.words(top, f"{at:%Y-%m-%d %H:%M:%S}", 3.2)
    if below is not None:
        page.words(below, f"子件 母单号 {parent}", 3.2, is_bold=True)


def _halves(box: Box) -> tuple[Box, Box]:
    """The upper and the lower half; the padding between them would be lost to both."""
    half = (box.height + 2 * _PAD) / 2
    upper = box._replace(height=half)
    return upper, upper._replace(y=box.y + box.height - half)


def _consolidation(page: _Page, label: Label, height: float) -> None:
    """The hub where parcels for one area are consolidated (集包地)."""
    hub = label.routing_info.consolidation
    marked, rest = page.row(height).split(10.0)
    page.mark(marked, "集", 5.5, is_inverted=True)
    named, coded = rest.split(rest.width * (0.68 if hub.code else 1.0))
    page.words(named, hub.name, 6.5, is_bold=True)
    if hub.code:
        page.elements.append(Words(coded.inside(), hub.code, 6.5, True, True))


def _delivery(page: _Page, label: Label, height: float) -> None:
    """The stamp of inspection, the receiver's signature, and the number as a QR code for phones."""
    box = page.row(height)
    left, square = box.split(box.width - height)
    checked, signed = left.split(18.0)
    stamp = checked._replace(y=checked.y + height * 0.28, height=height * 0.44).inside(pad=0)
    page.elements += [Frame(stamp), Words(stamp, "已验视", 4.5, True, True)]
    field = signed.inside()
    page.elements.append(Frame(field))
    lines = field.inside()
    who = lines._replace(height=lines.height / 2)
    page.elements += [
        Words(who, "签收人", 2.9),
        Words(who._replace(y=who.y + who.height), "签收时间", 2.9),
        Matrix(square.inside(), label.waybill_code),
    ]


def _contents(label: Label) -> str:
    parcel = label.parcel or Parcel()
    facts = [f"订单号 {label.order_sn}"]
    if parcel.weight_g:
        facts.append(f"重量 {parcel.weight_g / 1000:.2f} kg")
    if parcel.goods_name:
        facts.append(f"物品 {parcel.goods_name}")
    return "  ".join(facts)


_EXTENSION = re.compile(r"[^0-9]+[0-9]{1,6}#?$")
_NATIONAL_DIGITS = 10
_HIDDEN, _SHOWN_LAST = 4, 4


def _phone(phone: str, style: LabelStyle) -> str:
    """The number without the four digits before its last four; an extension is not counted."""
    if not style.hides_phone:
        return phone
    end = len(phone)
    # In 0086 138 1234 5678, what looks like an extension is the end of the number itself.
    extension = None if is_phone(phone) else _EXTENSION.search(phone)
    if extension and _digits(phone[: extension.start()]) >= _NATIONAL_DIGITS:
        end = extension.start()
    hidden, seen = list(phone), 0
    for at in reversed(range(end)):
        if phone[at].isdecimal():
            seen += 1
            if _SHOWN_LAST < seen <= _SHOWN_LAST + _HIDDEN:
                hidden[at] = "*"
    return "".join(hidden)


def _digits(text: str) -> int:
    return sum(each.isdecimal() for each in text)
