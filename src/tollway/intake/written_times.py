"""Times that a table writes out, as the exports of shops and spreadsheets have them.

A record has its times as numbers. JSON comes from a program, which can send them; a column of a
table has what a person sees there.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from zoneinfo import ZoneInfo

import msgspec

from tollway.contract.fields import InvalidValueError
from tollway.contract.time_fields import Moment, milliseconds_of
from tollway.intake.raw_records import RawRecord
from tollway.intake.record_fields import UNIT_MS
from tollway.intake.record_problems import extra_of, fields_of

# Excel writes 2026/1/5 9:30.
_WRITTEN = re.compile(r"([0-9]{4})[-/]([0-9]{1,2})[-/]([0-9]{1,2})(?:[ T]([0-9]{1,2})(:.+))?")
_MOMENT = Moment()


def with_plain_times(
    records: Iterable[RawRecord], record_types: Sequence[type[msgspec.Struct]], zone: ZoneInfo
) -> Iterator[RawRecord]:
    """The records of a file; the written times of a table become numbers in the unit of their
    field. What is not such a time stays, for the check to refuse."""
    units = [
        (field.encode_name, unit_ms)
        for record_type in record_types
        for field, _ in fields_of(record_type)
        if (unit_ms := extra_of(field.type).get(UNIT_MS))
    ]
    for raw in records:
        if isinstance(raw.source, str) and raw.values is not None:
            for name, unit_ms in units:
                sent = raw.values.get(name)
                if isinstance(sent, str) and not sent.isdecimal():
                    at_ms = _milliseconds(sent, zone)
                    if at_ms is not None:
                        raw.values[name] = str(at_ms // unit_ms)
        yield raw


def _milliseconds(text: str, zone: ZoneInfo) -> int | None:
    found = _WRITTEN.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, rest = found.groups()
    clock = f" {hour:0>2}{rest}" if hour else ""
    try:
        return milliseconds_of(_MOMENT.read(f"{year}-{month:0>2}-{day:0>2}{clock}"), zone)
    except InvalidValueError:
        return None
