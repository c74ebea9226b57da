"""What a carrier's numbers look like, and where it delivers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollway.carriers import CarrierError
from tollway.carriers.carriers import AreaKind, ServiceArea
from tollway.carriers.number_formats import (
    KNOWN_FORMATS,
    S10,
    check_format,
    number_problem,
    s10_check_digit,
)

GOOD = {
    "YTO": "YT1234567890123",
    "JTSD": "JT1234567890123",
    "SF": "SF1234567890123",
    "ZTO": "73123456789012",
    "STO": "77123456789012345",
    "YUNDA": "312345678901234",
    "EMS": "1123456789012",
    "POSTB": "9123456789012",
    "YZXB": "9123456789012",
    "JD": "JDVA12345678901",
    "DBKD": "DPK123456789012",
}


@pytest.mark.parametrize("wp_code", KNOWN_FORMATS)
def test_each_known_format_takes_its_numbers_whole(wp_code: str) -> None:
    number_format, number = KNOWN_FORMATS[wp_code], GOOD[wp_code]
    assert number_problem(number_format, number) is None
    for wrong in (f"{number}X", f"X{number}", number[:-1] + "x", number[:-1] + "\uff11"):
        assert number_problem(number_format, wrong) is not None


@pytest.mark.parametrize("number", ["RB123456785GB", "RA473124829FI"])
def test_s10_takes_numbers_with_the_right_check_digit(number: str) -> None:
    assert number_problem(S10, number) is None
    for digit in set("0123456789") - {number[10]}:
        problem = number_problem(S10, f"{number[:10]}{digit}{number[11:]}")
        assert problem is not None and f"should be {number[10]}" in str(problem)


@given(st.text("0123456789", min_size=8, max_size=8), st.integers(0, 7), st.integers(1, 9))
def test_s10_notices_any_one_wrong_digit(serial: str, position: int, by: int) -> None:
    wrong = str((int(serial[position]) + by) % 10)
    altered = f"{serial[:position]}{wrong}{serial[position + 1 :]}"
    # 10 and 11 are written as 0 and 5: only these the standard cannot distinguish.
    kept = s10_check_digit(serial)
    assert s10_check_digit(altered) != kept or kept in (0, 5)


@pytest.mark.parametrize(
    "number", ["", "YT1", "YT 234567890123", "YT1\n", "^XA", "a" * 13, "9" * 33, "TEST00000001"]
)
def test_what_a_printer_could_misread_or_the_sandbox_issues_is_no_number(
    number: str,
) -> None:
    assert number_problem(".*", number) is not None


def test_a_format_that_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(CarrierError, match="not a regular expression"):
        check_format("[")


@pytest.mark.parametrize(
    ("area", "served", "not_served"),
    [
        (ServiceArea(), ["广东省", "Ontario", "西藏自治区"], []),
        (
            ServiceArea(AreaKind.ONLY, ("广东", "新疆")),
            ["广东省", "新疆维吾尔自治区"],
            ["广西", "x"],
        ),
        (ServiceArea(AreaKind.EXCEPT, ("西藏自治区",)), ["江西", "山西省"], ["西藏", " 西藏 "]),
        (ServiceArea(AreaKind.ONLY, ("Ontario",)), ["ontario"], ["On", "广东"]),
    ],
)
def test_where_a_carrier_delivers(
    area: ServiceArea, served: list[str], not_served: list[str]
) -> None:
    assert all(area.serves(province) for province in served)
    assert not any(area.serves(province) for province in not_served)
