"""A font that has Chinese characters: the one that is named, or one that the system has."""

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from PIL import ImageFont

from tollway.carriers import CarrierError

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

    @lru_cache(maxsize=256)  # noqa: B019 - the files are a value, and there are only a few
    def font(self, size_dots: int, *, is_bold: bool) -> ImageFont.FreeTypeFont:
        path = self.bold if is_bold else self.regular
        return ImageFont.truetype(path, size_dots, index=_chinese_face(path))


def find_fonts(named: Path | None = None) -> FontFiles:
    if named is not None:
        _chinese_face(named)
        return FontFiles(named, named)
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
    """The one that the package mplfonts carries, where a machine has no font of its own. The
    package is only looked into, never imported."""
    package = find_spec("mplfonts")
    for folder in (package and package.submodule_search_locations) or ():
        font = Path(folder) / "fonts" / "NotoSansCJKsc-Regular.otf"
        if font.is_file():
            return font
    return None


@lru_cache(maxsize=16)
def _chinese_face(path: Path) -> int:
    """Which face of a collection is meant for simplified Chinese; the first if none says so."""
    for index in range(_FACES_MAX):
        try:
            family, _ = ImageFont.truetype(path, 12, index=index).getname()
        except OSError:
            if index == 0:
                raise CarrierError(
                    "{path} is not a font that can be read.", path=str(path)
                ) from None
            break
        if family is not None and family.endswith(" SC"):
            return index
    return 0
