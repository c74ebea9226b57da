"""A label as a file: a picture, a document, or a ZPL printer's commands."""

import base64
import binascii
import io
import zlib
from collections.abc import Callable
from typing import Any

from PIL import ImageOps

from tollway.carriers.labels.drawing import Drawing, FontFiles
from tollway.carriers.labels.layout import LabelStyle, lay_out
from tollway.carriers.labels.print_data import Label

_MM_PER_INCH = 25.4
_PNG_DPI = 300
# Twice what the finest label printers have.
_PDF_DPI = 600
# Of the usual 203 dpi printers.
_ZPL_DOTS_PER_MM = 8


def png(label: Label, fonts: FontFiles, style: LabelStyle) -> bytes:
    file = io.BytesIO()
    image = _drawn(label, fonts, style, _PNG_DPI).image
    # Optimising would take nine times as long, and save a fourteenth of the size.
    image.save(file, "PNG", dpi=(_PNG_DPI, _PNG_DPI))
    return file.getvalue()


def pdf(label: Label, fonts: FontFiles, style: LabelStyle) -> bytes:
    """A page of the label's size with pure black and white dots, or in colours with fewer dots.

    Drawn, not typeset, so that it prints the same where no Chinese font is installed.
    """
    return pdf_with(b"", label, fonts, style)


def pdf_with(document: bytes, label: Label, fonts: FontFiles, style: LabelStyle) -> bytes:
    """A document with one more page; an empty one gets its first."""
    file = io.BytesIO(document)
    options: dict[str, Any] = {"append": bool(document)}
    if style.has_colours:
        image = _drawn(label, fonts, style, _PNG_DPI).image
        options |= {"resolution": float(_PNG_DPI), "quality": 95, "subsampling": 0}
    else:
        shades = _drawn(label, fonts, style, _PDF_DPI).image
        image = shades.point(lambda shade: 255 if shade > 140 else 0).convert("1")
        options["resolution"] = float(_PDF_DPI)
    image.save(file, "PDF", **options)
    return file.getvalue()


def zpl(label: Label, fonts: FontFiles, style: LabelStyle) -> bytes:
    """Text and the QR code as a graphic, because printers rarely have Chinese fonts; the printer
    draws the bars itself."""
    drawing = Drawing(lay_out(label, style), fonts, _ZPL_DOTS_PER_MM)
    dots = ImageOps.invert(drawing.image).point(lambda shade: 255 if shade > 100 else 0)
    rows = dots.convert("1").tobytes()
    row_bytes = (dots.width + 7) // 8
    packed = base64.b64encode(zlib.compress(rows, 9))
    graphic = f"{packed.decode()}:{binascii.crc_hqx(packed, 0):04X}"
    size = len(rows)
    commands = [
        "^XA",
        f"^PW{dots.width}",
        f"^LL{dots.height}",
        "^LH0,0",
        f"^FO0,0^GFA,{size},{size},{row_bytes},:Z64:{graphic}^FS",
        *(
            f"^FO{bars.x},{bars.y}^BY{bars.module}^BCN,{bars.height},N,N,N,A^FD{bars.text}^FS"
            for bars in drawing.barcodes
        ),
        "^XZ",
    ]
    return "\n".join([*commands, ""]).encode("ascii")


Writer = Callable[[Label, FontFiles, LabelStyle], bytes]
WRITERS: dict[str, Writer] = {".pdf": pdf, ".png": png, ".zpl": zpl}


def _drawn(label: Label, fonts: FontFiles, style: LabelStyle, dpi: int) -> Drawing:
    layout = lay_out(label, style)
    drawing = Drawing(layout, fonts, dpi / _MM_PER_INCH, has_colours=style.has_colours)
    drawing.draw_barcodes()
    return drawing
