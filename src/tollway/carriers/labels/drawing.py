"""A layout as dots: black on white, for a printer or screen of so many dots per millimetre."""

import re
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from tollway.carriers.labels.code128 import bar_widths
from tollway.carriers.labels.fonts import FontFiles
from tollway.carriers.labels.layout import Bars, Box, Layout, Rule, Words

# A run of letters and digits, or any one character.
_PIECES = re.compile(r"[!-~]+|.", re.DOTALL)
_QUIET_MODULES = 10
_LINE_SPACING = 1.22
_SHRINK = 0.94
_SIZE_LEAST_MM = 1.2


class PlacedBars(NamedTuple):
    """A barcode in dots: where it begins, its height, and the width of its narrowest bar."""

    x: int
    y: int
    height: int
    module: int
    text: str


class Drawing:
    """One label, drawn."""

    def __init__(self, layout: Layout, fonts: FontFiles, dots_per_mm: float) -> None:
        self._dots_per_mm = dots_per_mm
        self._fonts = fonts
        size = (self._dots(layout.size.width_mm), self._dots(layout.size.height_mm))
        self.image = Image.new("L", size, 255)
        self._pen = ImageDraw.Draw(self.image)
        self.barcodes: list[PlacedBars] = []
        for element in layout.elements:
            if isinstance(element, Words):
                self._words(element)
            elif isinstance(element, Rule):
                self._rule(element)
            else:
                self.barcodes.append(self._placed(element))

    def draw_barcodes(self) -> None:
        """Left to the caller, because some printers draw better bars themselves."""
        for bars in self.barcodes:
            x = bars.x
            for position, width in enumerate(bar_widths(bars.text)):
                if position % 2 == 0:
                    right = x + width * bars.module - 1
                    self._pen.rectangle((x, bars.y, right, bars.y + bars.height - 1), fill=0)
                x += width * bars.module

    def _dots(self, mm: float) -> int:
        return round(mm * self._dots_per_mm)

    def _placed(self, bars: Bars) -> PlacedBars:
        """Every module is a whole number of dots: scanners misread blurred edges."""
        modules = sum(bar_widths(bars.text))
        width = self._dots(bars.box.width)
        module = max(1, width // (modules + 2 * _QUIET_MODULES))
        x = self._dots(bars.box.x) + (width - modules * module) // 2
        return PlacedBars(x, self._dots(bars.box.y), self._dots(bars.box.height), module, bars.text)

    def _rule(self, rule: Rule) -> None:
        left, right = self._dots(rule.box.x), self._dots(rule.box.x + rule.box.width)
        y, thickness = self._dots(rule.box.y), max(1, self._dots(0.25))
        step = self._dots(2) if rule.is_dashed else right - left
        for x in range(left, right, step * 2):
            self._pen.line((x, y, min(x + step, right), y), fill=0, width=thickness)

    def _words(self, words: Words) -> None:
        font, lines = self._fitted(words)
        line_height = font.size * _LINE_SPACING
        box = words.box
        top = self._dots(box.y) + (self._dots(box.height) - line_height * len(lines)) / 2
        for number, line in enumerate(lines):
            y = top + line_height * (number + 0.5)
            x, anchor = self._dots(box.x), "lm"
            if words.is_centred:
                x, anchor = self._dots(box.x + box.width / 2), "mm"
            self._pen.text((x, y), line, font=font, fill=0, anchor=anchor)

    def _fitted(self, words: Words) -> tuple[ImageFont.FreeTypeFont, list[str]]:
        """The largest letters with which the text fits its box."""
        text = "".join(each if each.isprintable() else " " for each in words.text)
        size_mm = words.size
        while True:
            font = self._fonts.font(max(1, self._dots(size_mm)), is_bold=words.is_bold)
            lines = _wrapped(text, font, self._dots(words.box.width))
            if self._fits(words.box, font, lines) or size_mm <= _SIZE_LEAST_MM:
                return font, lines
            size_mm *= _SHRINK

    def _fits(self, box: Box, font: ImageFont.FreeTypeFont, lines: list[str]) -> bool:
        return font.size * _LINE_SPACING * len(lines) <= self._dots(box.height) + 1


def _wrapped(text: str, font: ImageFont.FreeTypeFont, width: int) -> list[str]:
    """Lines that fit a width: broken anywhere, as Chinese is, but not within a number or word."""
    lines: list[str] = []
    line = ""
    for piece in _PIECES.findall(text):
        parts = piece if font.getlength(piece) > width else [piece]
        for part in parts:
            if line and font.getlength(line + part) > width:
                lines.append(line.rstrip())
                line = part.strip()
            else:
                line += part
    return [*lines, line]
