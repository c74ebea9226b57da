"""Each kind of field: what it takes, what it refuses and with which words."""

from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollway.contract.fields import Choice, Day, Kind, Moment, Text, Unfit, Whole

TEXT = Text(max_length=5, min_length=2)
WHOLE = Whole(1, 1000)
CHOICE = Choice(((4, "food delivery"), (6, "flash purchase")))
KINDS: tuple[Kind, ...] = (TEXT, Day(), WHOLE, CHOICE, Moment())

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
        (TEXT, " a ", " a "),
        (TEXT, 12345, "12345"),
        (Day(), "2024-02-29", date(2024, 2, 29)),
        (Day(), "0001-01-01", date(1, 1, 1)),
        (WHOLE, 1, 1),
        (WHOLE, "1000", 1000),
        (WHOLE, "007", 7),
        (WHOLE, 7.0, 7),
        (CHOICE, 4, 4),
        (CHOICE, "6", 6),
        (Moment(), 0, 0),
        (Moment(), "1767225600", 1_767_225_600_000),
        (Moment(), 1_767_225_600_123, 1_767_225_600_123),
        (Moment(), "2026-01-01 08:00:00", datetime(2026, 1, 1, 8, 0, 0)),  # noqa: DTZ001
    ],
)
def test_a_fitting_value_is_read(kind: Kind, raw: object, value: object) -> None:
    read = kind.read(raw)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "raw", "problem"),
    [
        (TEXT, "", "empty"),
        (TEXT, "a", "it has 1 characters"),
        (TEXT, "abcdef", "it has 6 characters"),
        (TEXT, "a\0b", "NUL"),
        (TEXT, "a\ud800b", "half of a surrogate pair"),
        (TEXT, 1.5, "not a text"),
        (TEXT, True, "not a text"),
        (TEXT, ["ab"], "not a text"),
        (TEXT, {"a": "b"}, "not a text"),
        (Day(), "2025-02-29", "not a date of the calendar"),
        (Day(), "2026-13-01", "not a date of the calendar"),
        (Day(), "2026-W01-1", "not a date of the calendar"),
        (Day(), "20260101", "not a date of the calendar"),
        (Day(), "2026-01-01 ", "not a date of the calendar"),
        (Day(), "2026-01-01\n", "not a date of the calendar"),
        (Day(), "２026-01-01", "not a date of the calendar"),
        (Day(), "0000-01-01", "not a date of the calendar"),
        (Day(), 20260101, "not a date of the calendar"),
        (WHOLE, 0, "less than 1"),
        (WHOLE, 1001, "more than 1000"),
        (WHOLE, 10**400, "more than 1000"),
        (WHOLE, -(10**400), "less than 1"),
        (WHOLE, True, "not a whole number"),
        (WHOLE, 1.5, "not a whole number"),
        (WHOLE, float("inf"), "not a whole number"),
        (WHOLE, float("nan"), "not a whole number"),
        (WHOLE, "1.0", "not a whole number"),
        (WHOLE, "+1", "not a whole number"),
        (WHOLE, " 1", "not a whole number"),
        (WHOLE, "1\n", "not a whole number"),
        (WHOLE, "1_0", "not a whole number"),
        (WHOLE, "１", "not a whole number"),
        (WHOLE, "9" * 19, "not a whole number"),
        (WHOLE, "", "not a whole number"),
        (WHOLE, [1], "not a whole number"),
        (CHOICE, 5, "not one of the known values"),
        (CHOICE, "waimai", "not a whole number"),
        (Moment(), -1, "not a time"),
        (Moment(), "2026-01-01", "not a time"),
        (Moment(), "2026-01-01T08:00:00", "not a time"),
        (Moment(), "2026-02-30 08:00:00", "not a time"),
        (Moment(), "2026-01-01 24:00:00", "not a time"),
        (Moment(), "２026-01-01 08:00:00", "not a time"),
        (Moment(), "2026-1-01  08:00:00", "not a time"),
        (Moment(), "2026-01-01  8:00:00", "not a time"),
        (Moment(), "2026-01-01 08:00:0\n", "not a time"),
        (Moment(), {}, "not a time"),
    ],
)
def test_an_unfit_value_is_refused_with_its_problem(kind: Kind, raw: object, problem: str) -> None:
    with pytest.raises(Unfit) as refused:
        kind.read(raw)
    assert problem in refused.value.problem.en
    assert refused.value.problem.zh


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
@given(raw=ANYTHING)
def test_anything_at_all_is_read_or_unfit(kind: Kind, raw: object) -> None:
    try:
        kind.read(raw)
    except Unfit as unfit:
        assert unfit.problem.en and unfit.problem.zh


@given(number=st.integers(-5, 1005))
def test_a_number_means_the_same_as_its_digits(number: int) -> None:
    def outcome(raw: object) -> object:
        try:
            return WHOLE.read(raw)
        except Unfit as unfit:
            return unfit.problem

    assert outcome(number) == outcome(str(number)) == outcome(float(number))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_what_to_send_is_said_in_both_languages(kind: Kind) -> None:
    assert kind.expected.en.isascii()
    assert not kind.expected.zh.isascii()
    assert kind.schema()["type"]


def test_bounds_are_reported_to_the_caller() -> None:
    assert "2 to 5" in TEXT.expected.en and "2 到 5" in TEXT.expected.zh
    assert "1 to 1000" in WHOLE.expected.en and "1 到 1000" in WHOLE.expected.zh
    assert "4 (food delivery), 6 (flash purchase)" in CHOICE.expected.en
