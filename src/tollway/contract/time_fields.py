"""The kinds of request field that are about time: a day, a moment, a timestamp."""

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec

from tollway.contract.fields import InvalidValueError, bare, whole_number
from tollway.contract.language import Phrase

# Also at midnight, as a day is written by what has no type for one.
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T]00:00(:00(\.0{1,9})?)?)?")
_DAY_LENGTH = len("YYYY-MM-DD")
_NOT_DAY = Phrase("it is not a date of the calendar", "不是有效日期")
_NOT_LIKE_A_DAY = Phrase("it is in another form", "格式不符")


class Day(msgspec.Struct, frozen=True):
    """A calendar date, YYYY-MM-DD."""

    @property
    def expected(self) -> Phrase:
        return Phrase("a date as YYYY-MM-DD", "YYYY-MM-DD 格式的日期")

    def read(self, raw: object) -> date:
        # Matched first because fromisoformat also accepts formats that a caller never means here
        # (20260101, 2026-W01-1), and the digits of other scripts.
        text = bare(raw) if isinstance(raw, str) else ""
        if not _DAY.fullmatch(text):
            raise InvalidValueError(_NOT_LIKE_A_DAY)
        try:
            return date.fromisoformat(text[:_DAY_LENGTH])
        except ValueError:
            raise InvalidValueError(_NOT_DAY) from None

    def schema(self) -> dict[str, object]:
        return {"type": "string", "format": "date"}


# Hours up to 23, because newer versions of Python accept 24:00:00 as the next midnight. The + of an
# offset arrives as a space if the client did not encode it.
_TIME = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"([ T](?P<minute>([01][0-9]|2[0-3]):[0-9]{2})(?P<second>:[0-9]{2}(\.[0-9]{1,9})?)?"
    r"(?P<offset>Z|[-+ ][0-9]{2}:?[0-9]{2})?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# A timestamp from here on is in milliseconds: in seconds it would be past the year 5000.
_MILLISECONDS_FROM = 100_000_000_000
# The end of the year 9999. Present-day microseconds are larger: taken as milliseconds, they would
# select nothing, and the call would be charged.
_MILLISECONDS_MAX = 253_402_300_799_999
# yyyyMMdd, with HHmm, with HHmmss. As timestamps they would be in 1970, in 1976 and after 2500:
# such a window selects all or nothing, and would be charged. With HH alone it can be seconds.
_RUN_TOGETHER = re.compile(
    r"(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])"
    r"(([01][0-9]|2[0-3])[0-5][0-9]([0-5][0-9])?)?"
)
_IS_RUN_TOGETHER = Phrase("it is a date or time without separators", "是没有分隔符的日期或时间")
_TIME_FORMS = Phrase("yyyy-MM-dd, yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd、yyyy-MM-dd HH:mm:ss")
_NOT_MOMENT = Phrase("it is not a time", "不是有效时间")
_NEGATIVE = Phrase("it is less than 0", "小于 0")
_IN_MILLISECONDS = Phrase("it is in milliseconds", "单位为毫秒")
_TOO_LATE = Phrase(
    "it is in microseconds, or later than the year 9999", "单位为微秒，或晚于公元 9999 年"
)


def _written_time(raw: object) -> datetime:
    """A written time: a day, to the minute or the second, with a UTC offset or, without one, in the
    gateway's time zone."""
    # Matched first because fromisoformat accepts many more formats.
    found = _TIME.fullmatch(bare(raw)) if isinstance(raw, str) else None
    if found is None:
        raise InvalidValueError(_NOT_MOMENT)
    day, minute, second, offset = found.group("day", "minute", "second", "offset")
    offset = (offset or "").replace(" ", "+")
    try:
        return datetime.fromisoformat(f"{day}T{minute or '00:00'}{second or ''}{offset}")
    except ValueError:
        raise InvalidValueError(_NOT_MOMENT) from None


def _number_or_written(raw: object) -> int | datetime:
    """A time as it was sent: a number, whose unit is not known yet, or a written time."""
    try:
        number = whole_number(raw)
    except InvalidValueError:
        return _written_time(raw)
    if number < 0:
        raise InvalidValueError(_NEGATIVE)
    if _RUN_TOGETHER.fullmatch(str(number)):
        raise InvalidValueError(_IS_RUN_TOGETHER)
    if number > _MILLISECONDS_MAX:
        raise InvalidValueError(_TOO_LATE)
    return number


class Seconds(msgspec.Struct, frozen=True):
    """A point in time: a timestamp in seconds and in no other unit, or a written time.

    A written time stays a datetime, because the zone is a setting: `seconds_of` takes both.
    """

    @property
    def expected(self) -> Phrase:
        return Phrase(
            f"a timestamp in seconds, {_TIME_FORMS.en}, or ISO 8601 with an offset",
            f"秒级时间戳、{_TIME_FORMS.zh}，或带时区的 ISO 8601 时间",
        )

    def read(self, raw: object) -> int | datetime:
        read = _number_or_written(raw)
        if isinstance(read, int) and read >= _MILLISECONDS_FROM:
            raise InvalidValueError(_IN_MILLISECONDS)
        return read

    def schema(self) -> dict[str, object]:
        bounds = {"minimum": 0, "exclusiveMaximum": _MILLISECONDS_FROM}
        return {"type": ["integer", "string"], **bounds}


class Moment(msgspec.Struct, frozen=True):
    """A point in time: seconds, milliseconds, or a written time.

    Timestamps become milliseconds; a written time stays a datetime: `milliseconds_of` takes both.
    """

    @property
    def expected(self) -> Phrase:
        return Phrase(
            f"seconds, milliseconds, {_TIME_FORMS.en}, or ISO 8601 with an offset",
            f"秒级或毫秒级时间戳、{_TIME_FORMS.zh}，或带时区的 ISO 8601 时间",
        )

    def read(self, raw: object) -> int | datetime:
        read = _number_or_written(raw)
        if isinstance(read, int) and read < _MILLISECONDS_FROM:
            return read * 1000
        return read

    def schema(self) -> dict[str, object]:
        bounds = {"minimum": 0, "maximum": _MILLISECONDS_MAX}
        return {"type": ["string", "integer"], **bounds}


def milliseconds_of(moment: int | datetime, zone: ZoneInfo) -> int:
    """The value of a `Moment` in milliseconds since 1970."""
    if isinstance(moment, int):
        return moment
    known = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
    return (known - _EPOCH) // _MILLISECOND


def span_s(start: int | datetime, end: int | datetime, zone: ZoneInfo) -> int:
    """The time between two values of `Seconds`, also before 1970."""
    start_ms, end_ms = (
        each * 1000 if isinstance(each, int) else milliseconds_of(each, zone)
        for each in (start, end)
    )
    return end_ms // 1000 - start_ms // 1000


def seconds_of(moment: int | datetime, zone: ZoneInfo) -> int:
    """The value of `Seconds` in seconds since 1970; 0 for earlier times."""
    if isinstance(moment, int):
        return moment
    return max(0, milliseconds_of(moment, zone) // 1000)
