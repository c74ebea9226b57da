"""Each kind of field: what it takes, what it refuses and with which words."""

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollway.contract.fields import Choice, Code, InvalidValueError, Kind, Line, Phone, Text, Whole
from tollway.contract.time_fields import Day, Moment, Seconds, milliseconds_of, seconds_of

TEXT = Text(max_length=5, min_length=2)
WHOLE = Whole(1, 1000)
CHOICE = Choice(((4, "food delivery"), (6, "flash purchase")))
PHONE = Phone(32)
KINDS: tuple[Kind, ...] = (TEXT, Day(), WHOLE, CHOICE, Moment(), Seconds(), PHONE)
PHONES = (
    *("13812345678", "138-1234-5678", "138 1234 5678", "+86 13812345678", "8613812345678"),
    *("0571-88886666", "(0571) 88886666", "010-62345678", "02162345678"),
    *("+86 571 88886666", "0571-88886666-801", "0571-88886666转801", "88886666", "400-820-8820"),
    *("95311", "+852 2345 6789", "+886912345678", "18412345678-1234", "13812345678,0021"),
    *("13812345678#12", "13812345678 转 5", "17531103964_6603", "13812345678分机1234"),
    *("0571-88886666 转分机 801", "13812345678 分机号:12", "13812345678-1234#", "13812345678*12#"),
)
NO_PHONES = (
    *("abc", "138****1234", "1381234567", "138123456789", "12345678901", "00000000000"),
    *("11111111111", "123", "无", "13812345678/13912345678", "1381234567a", "+", "0571-"),
    *("13812345678-1234567", "+86", "٠١٢٣٤٥٦٧٨٩٠", "13812345678分机", "13812345678_#", "_1234#"),
)
AT_8 = datetime(2026, 1, 1, 8)  # noqa: DTZ001 - by the gateway's clock
EAST_8 = timezone(timedelta(hours=8))

# What a JSON body can hold, and more: half surrogates, infinities, numbers of any size.
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None, exclude_categories=()), max_size=30)
    | st.text("0123456789-: T", max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (TEXT, "ab", "ab"),
        (TEXT, "五个汉字呀", "五个汉字呀"),
        (TEXT, "😀😀", "😀😀"),
        (TEXT, " ab\u3000\n", "ab"),
        (Text(5, keeps_spaces=True), " a ", " a "),
        (Text(5, keeps_spaces=True), "\na \r\n", "\na "),
        (Code(5), " yto", "YTO"),
        *((PHONE, number, number) for number in PHONES),
        (PHONE, " １３８１２３４５６７８ ", "13812345678"),
        (PHONE, 13812345678, "13812345678"),
        # As a number comes from the address book of a system, or a code from a page.
        (PHONE, "\u202d13812345678\u202c", "13812345678"),
        (Code(5), "\ufeffyto\u200b", "YTO"),
        (WHOLE, "\u200e7\u200b ", 7),
        (Day(), "\u200b 2026-01-01\u2060", date(2026, 1, 1)),
        (Moment(), "2026-01-01 08:00:00\u200e", AT_8),
        # An id is as it was stored.
        (TEXT, "\u200bab", "\u200bab"),
        (TEXT, "👨\u200d👩", "👨\u200d👩"),
        (TEXT, 12345, "12345"),
        (Day(), "2024-02-29", date(2024, 2, 29)),
        # As databases, spreadsheets and libraries write a day whose type has a time.
        (Day(), "2026-01-01 00:00:00", date(2026, 1, 1)),
        (Day(), "2026-01-01T00:00", date(2026, 1, 1)),
        (Day(), "2026-01-01 00:00:00.0", date(2026, 1, 1)),
        (Day(), "0001-01-01", date(1, 1, 1)),
        (WHOLE, 1, 1),
        (WHOLE, "1000", 1000),
        (WHOLE, "007", 7),
        (WHOLE, 7.0, 7),
        (WHOLE, " 7\n", 7),
        (Day(), " 2026-01-01\n", date(2026, 1, 1)),
        (CHOICE, 4, 4),
        (CHOICE, "6", 6),
        (Moment(), 0, 0),
        (Moment(), "1767225600", 1_767_225_600_000),
        (Moment(), 1_767_225_600_123, 1_767_225_600_123),
        (Moment(), 253_402_300_799_999, 253_402_300_799_999),
        (Moment(), "2026-01-01 08:00:00", AT_8),
        (Moment(), "2026-01-01T08:00:00", AT_8),
        (Moment(), " 2026-01-01 08:00 ", AT_8),
        (Moment(), "2026-01-01T08:00", AT_8),
        (Moment(), "2026-01-01", AT_8.replace(hour=0)),
        (Moment(), "2026-01-01T08:00:00Z", AT_8.replace(tzinfo=UTC)),
        (Moment(), "2026-01-01T16:00:00.000+08:00", AT_8.replace(hour=16, tzinfo=EAST_8)),
        # What becomes of the + where a form was encoded by hand.
        (Moment(), "2026-01-01T16:00 08:00", AT_8.replace(hour=16, tzinfo=EAST_8)),
        (Moment(), "2026-01-01 16:00:00+0800", AT_8.replace(hour=16, tzinfo=EAST_8)),
        (Seconds(), "1767225600", 1_767_225_600),
        # No day of the calendar, and no hour alone: these can be numbers of seconds.
        (Moment(), "20261340", 20_261_340_000),
        (Seconds(), "2026111708", 2_026_111_708),
        (Seconds(), "2026-01-01", AT_8.replace(hour=0)),
    ],
)
def test_a_fitting_value_is_read(kind: Kind, raw: object, value: object) -> None:
    read = kind.read(raw)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "raw", "problem"),
    [
        (TEXT, "", "empty"),
        (TEXT, " a ", "it has 1 character"),
        *((PHONE, number, "not a phone number") for number in NO_PHONES),
        (TEXT, " \u3000", "empty"),
        (TEXT, "\u200b \ufeff", "empty"),
        (TEXT, "abcdef", "it has 6 characters"),
        (TEXT, "a\0b", "NUL"),
        (TEXT, "a\ud800b", "half of a surrogate pair"),
        (TEXT, 1.5, "not a text"),
        (TEXT, True, "not a text"),
        (TEXT, ["ab"], "not a text"),
        (TEXT, {"a": "b"}, "not a text"),
        (Day(), "2025-02-29", "not a date of the calendar"),
        (Day(), "2026-13-01", "not a date of the calendar"),
        (Day(), "2026-W01-1", "in another form"),
        (Day(), "20260101", "in another form"),
        (Day(), "2026-01-01 08:00:00", "in another form"),
        # Which day this is depends on the zone.
        (Day(), "2026-01-01T00:00:00Z", "in another form"),
        (Day(), "２026-01-01", "in another form"),
        (Day(), "0000-01-01", "not a date of the calendar"),
        (Day(), 20260101, "in another form"),
        (WHOLE, 0, "less than 1"),
        (WHOLE, 1001, "more than 1000"),
        (WHOLE, 10**400, "more than 1000"),
        (WHOLE, -(10**400), "less than 1"),
        (WHOLE, True, "not a whole number"),
        (WHOLE, 1.5, "not a whole number"),
        (WHOLE, float("inf"), "not a whole number"),
        (WHOLE, float("nan"), "not a whole number"),
        (Whole(1, 10**18), 9007199254740993.0, "too large to be exact"),
        (WHOLE, "1.0", "not a whole number"),
        (WHOLE, "+1", "not a whole number"),
        (WHOLE, "1_0", "not a whole number"),
        (WHOLE, "１", "not a whole number"),
        (WHOLE, "9" * 19, "more than 1000"),
        (WHOLE, "9" * 4000, "not a whole number"),
        (WHOLE, "", "not a whole number"),
        (WHOLE, [1], "not a whole number"),
        (CHOICE, 5, "not one of the known values"),
        (CHOICE, "waimai", "not a whole number"),
        (Moment(), -1, "less than 0"),
        (Moment(), "2026-02-30 08:00:00", "not a time"),
        (Moment(), "2026-01-01 24:00:00", "not a time"),
        (Moment(), "2026-01-01 08:60", "not a time"),
        (Moment(), "2026-01-01T08:00:00+24:00", "not a time"),
        (Moment(), "2026-01-01T08", "not a time"),
        (Moment(), "2026-01-01+08:00", "not a time"),
        (Seconds(), 1_767_225_600_000, "in milliseconds"),
        (Seconds(), "yesterday", "not a time"),
        # Microseconds; a caller would pay for an empty page in the year 57000.
        (Moment(), 1_767_225_600_000_000, "in microseconds"),
        (Moment(), "1767225600000000000", "in microseconds"),
        (Moment(), 253_402_300_800_000, "later than the year 9999"),
        (Seconds(), 1_767_225_600_000_000, "in microseconds"),
        # Days and times without separators; as numbers they are of 1970, 1976 and 2612.
        (Moment(), "20261117", "a date or time without separators"),
        (Moment(), 20261117, "a date or time without separators"),
        (Moment(), "202611170830", "a date or time without separators"),
        (Moment(), "20261117083000", "a date or time without separators"),
        (Seconds(), "20261117", "a date or time without separators"),
        (Seconds(), "20261117083000", "a date or time without separators"),
        (Line(max_length=9), "a\nb", "a line break or a control character"),
        (Line(max_length=9), "a\x1b[b", "a line break or a control character"),
        (Line(max_length=9), "a\u2028b", "a line break or a control character"),
        (Line(max_length=9), "a\u200bb", "a character that cannot be seen"),
        (Line(max_length=9), "a\u202eb", "a character that cannot be seen"),
        (Line(max_length=9), "a\u00adb", "a character that cannot be seen"),
        (Line(max_length=9), "ab\ufeff", "a character that cannot be seen, U+FEFF"),
        (Moment(), "２026-01-01 08:00:00", "not a time"),
        (Moment(), "2026-1-01  08:00:00", "not a time"),
        (Moment(), "2026-1-01 08:00:00", "not a time"),
        (Moment(), "2026-01-01  08:00:00", "not a time"),
        (Moment(), "2026-01-01  8:00:00", "not a time"),
        (Moment(), "2026-01-01 08:00:0\n", "not a time"),
        (Moment(), {}, "not a time"),
    ],
)
def test_an_unfit_value_is_refused_with_its_problem(kind: Kind, raw: object, problem: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        kind.read(raw)
    assert problem in refused.value.problem.en
    assert refused.value.problem.zh


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
@given(raw=ANYTHING)
def test_anything_at_all_is_read_or_unfit(kind: Kind, raw: object) -> None:
    try:
        kind.read(raw)
    except InvalidValueError as unfit:
        assert unfit.problem.en and unfit.problem.zh


@given(number=st.integers(-5, 1005))
def test_a_number_means_the_same_as_its_digits(number: int) -> None:
    def outcome(raw: object) -> object:
        try:
            return WHOLE.read(raw)
        except InvalidValueError as unfit:
            return unfit.problem

    assert outcome(number) == outcome(str(number)) == outcome(float(number))


@pytest.mark.parametrize("kind", [WHOLE, CHOICE, Seconds(), Moment(), Whole(1, 2**62)])
def test_a_long_number_means_the_same_as_its_digits(kind: Kind) -> None:
    def outcome(raw: object) -> object:
        try:
            return kind.read(raw)
        except InvalidValueError as unfit:
            return unfit.problem

    for number in (2**62, 10**20, -(10**20)):
        assert outcome(number) == outcome(str(number))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_what_to_send_is_said_in_both_languages(kind: Kind) -> None:
    assert kind.expected.en.isascii()
    assert not kind.expected.zh.isascii()
    assert kind.schema()["type"]


def test_bounds_are_reported_to_the_caller() -> None:
    assert "2 to 5" in TEXT.expected.en and "2 到 5" in TEXT.expected.zh
    assert "1 to 1000" in WHOLE.expected.en and "1 到 1000" in WHOLE.expected.zh
    assert "4 (food delivery), 6 (flash purchase)" in CHOICE.expected.en


@pytest.mark.parametrize(
    "written", ["2026-01-01 08:00", "2026-01-01T00:00:00Z", "2026-01-01T09:30:00.5+09:30"]
)
def test_a_written_time_is_the_same_moment_in_every_form(written: str) -> None:
    zone, at_s = ZoneInfo("Asia/Shanghai"), 1_767_225_600
    assert seconds_of(Seconds().read(written), zone) == at_s
    assert milliseconds_of(Moment().read(written), zone) // 1000 == at_s


@pytest.mark.parametrize("written", ["0001-01-01", "0001-01-01T00:00:00+23:59", "9999-12-31 23:59"])
def test_the_first_and_the_last_times_are_times(written: str) -> None:
    zone = ZoneInfo("Asia/Shanghai")
    assert seconds_of(Seconds().read(written), zone) >= 0
    assert milliseconds_of(Moment().read(written), zone) < 253_402_300_800_000
