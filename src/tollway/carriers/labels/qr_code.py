"""A text as a QR code: its modules, and a drawing for pages."""

from typing import Any, NamedTuple

import zxingcpp

# How much white space a reader needs around a code.
QUIET_MODULES = 4


class Modules(NamedTuple):
    """The modules of a code, row by row, without the white around: 0 is dark, 255 is light."""

    side: int
    pixels: bytes


def qr_modules(text: str) -> Modules:
    made = zxingcpp.create_barcode(text, zxingcpp.QRCode, ec_level="M")
    # Any, because its declared type does not say that it is a buffer.
    image: Any = made.to_image(scale=1, add_quiet_zones=False)
    return Modules(image.shape[0], bytes(image))


def qr_path(modules: Modules) -> str:
    """The dark modules as the path of an SVG, one module to a unit, with the white around."""
    side, quiet = modules.side, QUIET_MODULES
    return "".join(
        f"M{at % side + quiet} {at // side + quiet}h1v1h-1z"
        for at, pixel in enumerate(modules.pixels)
        if pixel < 128
    )
