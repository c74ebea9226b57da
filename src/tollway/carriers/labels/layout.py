"""What a label has, and where, on each of the three kinds of paper."""

from typing import NamedTuple

from tollway.carriers.labels.print_data import Label, Party


class LabelSize(NamedTuple):
    """Paper, by the waybill_type that asks for it."""

    waybill_type: int
    name: str
    width_mm: int
    height_mm: int


# Where the gateway describes the paper of each; print data names it as the label's template.
TEMPLATES_PATH = "/templates/waybill"

SIZES = {
    1: LabelSize(1, "single-part", 76, 130),
    2: LabelSize(2, "two-part", 100, 180),
    3: LabelSize(3, "other", 100, 150),
}


_MARGIN = 3.0
_PAD = 1.2


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    def inside(self, left: float = _PAD, pad: float = _PAD) -> "Box":
        return Box(self.x + left, self.y + pad, self.width - left - pad, self.height - 2 * pad)


class Words(NamedTuple):
    """A text, as large as fits into its box, but not larger than `size`."""

    box: Box
    text: str
    size: float
    is_bold: bool = False
    is_centred: bool = False


class Bars(NamedTuple):
    box: Box
    text: str


class Rule(NamedTuple):
    """A line from left to right; a dashed one is where the paper is torn."""

    box: Box
    is_dashed: bool = False


Element = Words | Bars | Rule


class Layout(NamedTuple):
    size: LabelSize
    elements: tuple[Element, ...]


def lay_out(label: Label) -> Layout:
    size = SIZES[label.shipping_option.waybill_type]
    page = _Page(size.width_mm)
    # The heights of a single-part label, stretched to the paper; a second part has a fixed share.
    main_height = size.height_mm * (0.66 if size.name == "two-part" else 1.0) - 2 * _MARGIN
    _main_part(page, label, main_height / 124)
    if size.name == "two-part":
        page.rule(is_dashed=True)
        left = size.height_mm - _MARGIN - page.y
        _second_part(page, label, left / 100)
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

    def words(self, height: float, text: str, size: float, *, is_bold: bool = False) -> None:
        self.elements.append(Words(self.row(height).inside(), text, size, is_bold))

    def barcode(self, height: float, text: str) -> None:
        box = self.row(height)
        digits = min(6.0, height / 3)
        bars = Box(box.x, box.y + _PAD, box.width, height - digits - 2 * _PAD)
        below = Box(box.x, box.y + height - digits - _PAD / 2, box.width, digits)
        spaced = " ".join(text[at : at + 4] for at in range(0, len(text), 4))
        self.elements.append(Bars(bars, text))
        self.elements.append(Words(below, spaced, digits * 0.8, is_bold=True, is_centred=True))

    def party(self, height: float, mark: str, party: Party, size: float) -> None:
        """Who and where, behind a large mark that says whether it comes or goes."""
        box = self.row(height)
        mark_width = 10.0
        marked = Box(box.x, box.y, mark_width, height).inside()
        self.elements.append(Words(marked, mark, min(7.0, height / 2), True, True))
        inner = box.inside(left=mark_width)
        name_height = min(inner.height * 0.38, size * 1.5)
        name = Box(inner.x, inner.y, inner.width, name_height)
        self.elements.append(Words(name, f"{party.name}  {party.mobile}", size, is_bold=True))
        where = party.address
        street = Box(inner.x, inner.y + name_height, inner.width, inner.height - name_height)
        address = f"{where.province} {where.city} {where.district} {where.detail}"
        self.elements.append(Words(street, address, size * 0.9))


def _main_part(page: _Page, label: Label, unit: float) -> None:
    """All that a carrier needs; the rows add up to 124 units."""
    routing = label.routing_info
    page.words(13 * unit, label.shipping_option.title, 8, is_bold=True)
    page.rule()
    page.words(16 * unit, routing.sortation.name, 10, is_bold=True)
    page.rule()
    page.words(10 * unit, routing.route_code, 6, is_bold=True)
    page.rule()
    page.party(26 * unit, "收", label.recipient, 4.5)
    page.rule()
    page.party(20 * unit, "寄", label.sender, 3.4)
    page.rule()
    page.barcode(29 * unit, label.waybill_code)
    page.rule()
    page.words(10 * unit, f"订单号 {label.order_sn}", 3.4)


def _second_part(page: _Page, label: Label, unit: float) -> None:
    """What the receiver keeps; the rows add up to 100 units."""
    page.words(12 * unit, label.shipping_option.title, 4.5, is_bold=True)
    page.barcode(34 * unit, label.waybill_code)
    page.rule()
    page.party(22 * unit, "收", label.recipient, 3.4)
    page.party(20 * unit, "寄", label.sender, 3.4)
    page.rule()
    page.words(12 * unit, f"订单号 {label.order_sn}", 3.4)
