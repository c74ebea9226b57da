"""Which styles of a spreadsheet show a number as a date. Nothing else of its styles is read."""

from typing import NamedTuple

from openpyxl.styles.numbers import builtin_format_code, is_date_format, is_timedelta_format
from openpyxl.xml.constants import ARC_STYLE, SHEET_MAIN_NS
from openpyxl.xml.functions import fromstring

from tollway.intake.spreadsheet_parts import Parts

# Formats that Chinese versions of Excel have built in, as 2026年1月31日: the file does not say what
# they look like, and all of them are dates or times.
_CHINESE_DATES = {*range(27, 37), *range(50, 59)}
_MAIN = f"{{{SHEET_MAIN_NS}}}"


class DateStyles(NamedTuple):
    """The numbers of the styles of dates and times, and those of lengths of time among them."""

    dates: set[int]
    durations: set[int]


def read_date_styles(parts: Parts) -> DateStyles:
    found = DateStyles(set(), set())
    if ARC_STYLE not in parts.namelist():
        return found
    styles = fromstring(parts.read(ARC_STYLE))
    own = {
        each.get("numFmtId"): each.get("formatCode")
        for each in styles.iterfind(f"{_MAIN}numFmts/{_MAIN}numFmt")
    }
    for number, style in enumerate(styles.iterfind(f"{_MAIN}cellXfs/{_MAIN}xf")):
        format_id = style.get("numFmtId", "0")
        shown = own.get(format_id) or builtin_format_code(int(format_id))
        if is_date_format(shown) or (shown is None and int(format_id) in _CHINESE_DATES):
            found.dates.add(number)
        if is_timedelta_format(shown):
            found.durations.add(number)
    return found
