"""Draws a layout with its text, Code 128 bars and QR codes as a picture; and finds a font with
Chinese characters: the named one, or one of the system."""

import re
from collections.abc import Callable
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import zxingcpp
from PIL import Image, ImageDraw, ImageFont

from tollway.carriers import CarrierError
from tollway.carriers.labels.layout import Bars, Box, Frame, Layout, Matrix, Rule, Words
from tollway.carriers.labels.qr_code import qr_modules

# Regular and bold; the same file twice where there is no bold one.
_USUAL = (
    ("/usr/share/fonts/opentype/noto/NotoSansCJK-{}.ttc", "Regular", "Bold"),
    ("/usr/share/fonts/noto-cjk/NotoSansCJK-{}.ttc", "Regular", "Bold"),
    ("/usr/share/fonts/google-noto-cjk/NotoSansCJK-{}.ttc", "Regular", "Bold"),
    ("/usr/share/fonts/truetype/wqy/wqy-{}.ttc", "microhei", "microhei"),
    ("/System/Library/Fonts/{}.ttc", "STHeiti Light", "STHeiti Medium"),
    ("C:/Windows/Fonts/{}.ttc", "msyh", "msyhbd"),
)
_FACES_MAX = 10


class FontFiles(NamedTuple):
    regular: Path
    bold: Path

    # Each takes 1 MiB, and maps its file. A usual label needs up to 27, and one whose texts must
    # shrink up to 81.
    @lru_cache(maxsize=32)  # noqa: B019 - the files are a value, and there are only a few
    def font(self, size_dots: int, *, is_bold: bool) -> ImageFont.FreeTypeFont:
        path = self.bold if is_bold else self.regular
        return ImageFont.truetype(path, size_dots, index=_chinese_face(path))

    def length(self, size_dots: int, is_bold: bool, piece: str) -> float:
        if len(piece) == 1:
            return self._length_of_letter(size_dots, is_bold, piece)
        return self.font(size_dots, is_bold=is_bold).getlength(piece)

    # Most letters come again in every label. Words and numbers are not kept: they may be personal
    # data. By the size, and not by the font, which would then stay open.
    @lru_cache(maxsize=16_384)  # noqa: B019 - as above
    def _length_of_letter(self, size_dots: int, is_bold: bool, letter: str) -> float:
        return self.font(size_dots, is_bold=is_bold).getlength(letter)


def find_fonts(named: Path | None = None) -> FontFiles:
    """The named font or an installed one, which was opened once."""
    files = _installed_fonts() if named is None else FontFiles(named, named)
    for path in files:
        _chinese_face(path)
    return files


def _installed_fonts() -> FontFiles:
    for pattern, regular, bold in _USUAL:
        files = FontFiles(Path(pattern.format(regular)), Path(pattern.format(bold)))
        if files.regular.is_file() and files.bold.is_file():
            return files
    packaged = _packaged_font()
    if packaged is not None:
        return FontFiles(packaged, packaged)
    raise CarrierError(
        "No font with Chinese characters was found: install one (on Debian: fonts-noto-cjk), "
        "or name a font file with --font."
    )


def _packaged_font() -> Path | None:
    """The font in the package mplfonts, for a machine without one. The package is located, never
    imported."""
    package = find_spec("mplfonts")
    for folder in (package and package.submodule_search_locations) or ():
        font = Path(folder) / "fonts" / "NotoSansCJKsc-Regular.otf"
        if font.is_file():
            return font
    return None


@lru_cache(maxsize=16)
def _chinese_face(path: Path) -> int:
    """The face of a collection for simplified Chinese; the first if none is marked as such."""
    for index in range(_FACES_MAX):
        try:
            family, _ = ImageFont.truetype(path, 12, index=index).getname()
        except OSError:
            if index == 0:
                raise CarrierError(
                    "{path} is not a font that can be read: name a .ttf, .otf or .ttc file.",
                    path=str(path),
                ) from None
            break
        if family is not None and family.endswith(" SC"):
            return index
    return 0


def bar_widths(text: str) -> list[int]:
    """A text as Code 128. Widths in modules: a bar, a gap, a bar and so on, ending with a bar."""
    made = zxingcpp.create_barcode(text, zxingcpp.Code128)
    # Any, because its declared type does not say that it is a buffer.
    image: Any = made.to_image(scale=1, add_quiet_zones=False)
    row = bytes(image)[: image.shape[1]]
    return [len(list(run)) for _, run in groupby(row)]


# A run of letters and digits, or any one character.
_PIECES = re.compile(r"[!-~]+|.", re.DOTALL)
_BLACK, _WHITE = "#000000", "#ffffff"
_QUIET_MODULES = 10
# The box itself has some padding.
_QUIET_AROUND = 2
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
    """One label, drawn: in shades of grey, or in colours."""

    def __init__(
        self, layout: Layout, fonts: FontFiles, dots_per_mm: float, *, has_colours: bool = False
    ) -> None:
        self._dots_per_mm = dots_per_mm
        self._fonts = fonts
        size = (self._dots(layout.size.width_mm), self._dots(layout.size.height_mm))
        self.image = Image.new("RGB" if has_colours else "L", size, _WHITE)
        self._pen = ImageDraw.Draw(self.image)
        self.barcodes: list[PlacedBars] = []
        for element in layout.elements:
            if isinstance(element, Words):
                self._words(element)
            elif isinstance(element, Rule):
                self._rule(element)
            elif isinstance(element, Frame):
                self._pen.rectangle(self._corners(element.box), outline=_BLACK, width=self._thin)
            elif isinstance(element, Matrix):
                self._matrix(element)
            else:
                self.barcodes.append(self._placed(element))

    def draw_barcodes(self) -> None:
        """Left to the caller, because some printers draw better bars themselves."""
        for bars in self.barcodes:
            x = bars.x
            for position, width in enumerate(bar_widths(bars.text)):
                if position % 2 == 0:
                    right = x + width * bars.module - 1
                    self._pen.rectangle((x, bars.y, right, bars.y + bars.height - 1), fill=_BLACK)
                x += width * bars.module

    def _dots(self, mm: float) -> int:
        return round(mm * self._dots_per_mm)

    @property
    def _thin(self) -> int:
        return max(1, self._dots(0.25))

    def _corners(self, box: Box) -> tuple[int, int, int, int]:
        right, bottom = self._dots(box.x + box.width), self._dots(box.y + box.height)
        return self._dots(box.x), self._dots(box.y), right, bottom

    def _placed(self, bars: Bars) -> PlacedBars:
        """Every module is a whole number of dots: scanners misread blurred edges."""
        modules = sum(bar_widths(bars.text))
        width = self._dots(bars.box.width)
        module = max(1, width // (modules + 2 * _QUIET_MODULES))
        x = self._dots(bars.box.x) + (width - modules * module) // 2
        return PlacedBars(x, self._dots(bars.box.y), self._dots(bars.box.height), module, bars.text)

    def _rule(self, rule: Rule) -> None:
        left, right = self._dots(rule.box.x), self._dots(rule.box.x + rule.box.width)
        y = self._dots(rule.box.y)
        step = self._dots(2) if rule.is_dashed else right - left
        for x in range(left, right, step * 2):
            self._pen.line((x, y, min(x + step, right), y), fill=_BLACK, width=self._thin)

    def _matrix(self, matrix: Matrix) -> None:
        """Every module is a whole number of dots, as with bars; the quiet zone is in the box."""
        side, pixels = qr_modules(matrix.text)
        code = Image.frombytes("L", (side, side), pixels)
        left, top, right, bottom = self._corners(matrix.box)
        module = max(1, min(right - left, bottom - top) // (side + 2 * _QUIET_AROUND))
        size = side * module
        where = (left + (right - left - size) // 2, top + (bottom - top - size) // 2)
        self.image.paste(code.resize((size, size), Image.Resampling.NEAREST), where)

    def _words(self, words: Words) -> None:
        font, lines = self._fitted(words)
        colour = words.colour
        if words.is_inverted:
            self._pen.rectangle(self._corners(words.box), fill=_BLACK)
            colour = _WHITE
        line_height = font.size * _LINE_SPACING
        box = words.box
        top = self._dots(box.y) + (self._dots(box.height) - line_height * len(lines)) / 2
        for number, line in enumerate(lines):
            y = top + line_height * (number + 0.5)
            x, anchor = self._dots(box.x), "lm"
            if words.is_centred:
                x, anchor = self._dots(box.x + box.width / 2), "mm"
            self._pen.text((x, y), line, font=font, fill=colour, anchor=anchor)

    def _fitted(self, words: Words) -> tuple[ImageFont.FreeTypeFont, list[str]]:
        """The largest font with which the text fits its box, and its lines."""
        text = "".join(each if each.isprintable() else " " for each in words.text)
        size_mm = words.size
        while True:
            size_dots = max(1, self._dots(size_mm))
            length = partial(self._fonts.length, size_dots, words.is_bold)
            lines = _wrapped(text, length, self._dots(words.box.width))
            if self._fits(words.box, size_dots, lines) or size_mm <= _SIZE_LEAST_MM:
                return self._fonts.font(size_dots, is_bold=words.is_bold), lines
            size_mm *= _SHRINK

    def _fits(self, box: Box, size_dots: float, lines: list[str]) -> bool:
        return size_dots * _LINE_SPACING * len(lines) <= self._dots(box.height) + 1


def _wrapped(text: str, length_of: Callable[[str], float], width: int) -> list[str]:
    """Lines that fit a width: broken anywhere, as Chinese is, but not within a number or word."""
    lines: list[str] = []
    line, taken = "", 0.0
    # Each piece is measured once: measuring the whole line for every character takes seconds.
    length = cache(length_of)
    for piece in _PIECES.findall(text):
        parts = piece if length(piece) > width else [piece]
        for part in parts:
            if line and taken + length(part) > width:
                lines.append(line.rstrip())
                line, taken = part.strip(), length(part.strip())
            else:
                line, taken = line + part, taken + length(part)
    return [*lines, line]
