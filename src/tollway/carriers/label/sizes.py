"""The three kinds of paper."""

from typing import NamedTuple


class LabelSize(NamedTuple):
    """Paper, by the waybill_type that asks for it."""

    waybill_type: int
    name: str
    width_mm: int
    height_mm: int


SIZES = {
    1: LabelSize(1, "single-part", 76, 130),
    2: LabelSize(2, "two-part", 100, 180),
    3: LabelSize(3, "other", 100, 150),
}
