"""What is shown of a receiver: enough to tell parcels apart, and no more."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operations.masking_cases import ADDRESSES, NAMES, PHONES, REMARKS
from tests.support.gateway import Gateway
from tests.support.orders import ask_orders, new_shopper, order, put_orders
from tests.support.stores import Store
from tollway.operations.orders import masking
from tollway.operations.orders.masking import (
    masked_address,
    masked_addresses,
    masked_name,
    masked_phone,
    masked_remark,
)

MASKERS = [masked_address, masked_name, masked_phone, masked_remark]
DESIGNATORS = set("号號栋棟幢室楼樓层層弄座户戶期单單元")


def test_addresses_keep_their_street_and_lose_their_number() -> None:
    assert {plain: masked_address(plain) for plain, _ in ADDRESSES} == dict(ADDRESSES)


def test_names_and_phones_are_masked() -> None:
    assert {plain: masked_name(plain) for plain, _ in NAMES} == dict(NAMES)
    assert {plain: masked_phone(plain) for plain, _ in PHONES} == dict(PHONES)


def test_long_numbers_in_remarks_are_masked() -> None:
    assert {plain: masked_remark(plain) for plain, _ in REMARKS} == dict(REMARKS)


def test_an_answer_has_nothing_that_is_masked(tmp_path: Path, engine: str) -> None:
    store = Store(tmp_path / "tollway.db")
    put_orders(
        store,
        [
            order(
                receiver_name="John Smith",
                receiver_phone="13800001234-5678",
                receiver_address="幸福小区5栋三零二",
                remark="电话 138 0000 1234，三零二，或 139，0000，5678",
            )
        ],
    )
    gateway = Gateway(store)
    token = new_shopper(store).token
    (entry,) = ask_orders(gateway, token).data["content"]
    # What is masked cannot be found out by searching for it.
    for part, count in (("138 0000 1234", 0), ("138", 0), ("0", 0), ("4", 0), ("，三零二", 1)):
        assert ask_orders(gateway, token, remark=part).data["totalElements"] == count
    assert gateway.stop() == 0
    assert (entry["receiver_name"], entry["receiver_phone"]) == ("J**", "138****1234")
    assert entry["receiver_address"] == entry["address"] == "幸福小区***栋***"
    assert entry["remark"] == "电话 ***，三零二，或 ***"


def test_no_number_of_any_script_is_shown() -> None:
    numbers = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isnumeric()]
    assert len(numbers) > 1_800
    for number in numbers:
        assert masked_address(f"人民路{number}号") == "人民路***号", number
        assert masked_address(f"人民路{number}") == "人民路***", number
        assert re.fullmatch(r"\d{0,3}\*{4}\d{0,4}", masked_phone(number * 11), re.ASCII), number
        if number != "京":
            assert masked_remark(number * 7) == masked_remark(f"{number} -" * 6 + number) == "***"


def test_a_number_is_hidden_however_its_digits_are_called_and_a_capital_is_none() -> None:
    for digits in ("幺三八洞洞幺拐勾两", "洞拐钩鈎洞拐勾", "1 3 8 洞 洞 拐 1"):
        assert masked_remark(f"电话{digits}，谢谢") == "电话***，谢谢"
    assert masked_remark("京京京京京京京") == "京京京京京京京"
    assert masked_remark("12京34 56 7，发到北京") == "12京34 56 7，发到北京"
    assert masked_phone("北京13800001234") == "138****1234"
    assert (
        masked_phone("幺三八洞洞洞洞幺两三四") == masked_phone("一三八零零零零一两三四") == "****"
    )


# -- Whatever the text is -------------------------------------------------------------------------
PIECES = [
    *"文三五一零百万路街区小村花园苑号栋幢单元室楼层座弄期甲里 ,，-#·*x5８٥⑫Ⅻ贰拾",
    *("大道", "广场", "Road", "Flat", "Baker ", "SOHO", "III", "\u200b", "🏠", "138", "0000"),
]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=60).map("".join))


@given(TEXTS)
def test_an_address_shows_names_of_places_and_then_only_what_was_counted(address: str) -> None:
    shown, hidden, outline = masked_address(address).partition("***")
    assert hidden and address.strip().startswith(shown)
    assert set(outline) <= DESIGNATORS | {"*"}
    assert max(map(len, outline.split("***"))) <= 2 * 6
    assert len(shown) <= 48 and len(outline) <= 6 * 5
    for char in shown:
        assert not char.isnumeric() or "\u3400" <= char <= "\u9fff", char
    # Numerals are shown before another character of a name, and several only before a road's.
    assert not re.search("[一三五百万零贰拾](?:[号栋幢单室楼层座弄期区 ,，·]|$)", shown)
    assert not re.search("[一三五百万零贰拾]{2}(?![一三五百路街村大广])", shown)


@given(TEXTS)
def test_which_digits_an_address_has_decides_nothing(address: str) -> None:
    assert masked_address(address) == masked_address(re.sub("[0-9]", "7", address))


@given(st.lists(TEXTS))
def test_many_addresses_are_masked_as_each_is_alone(addresses: list[str]) -> None:
    assert masked_addresses(addresses) == list(map(masked_address, addresses))


@given(TEXTS)
def test_masking_twice_is_masking_once(text: str) -> None:
    for mask in MASKERS:
        assert mask(mask(text)) == mask(text), mask


@given(TEXTS)
def test_a_name_shows_a_letter_at_most(name: str) -> None:
    assert re.fullmatch(r"[^\W\d_]?\*\*|\*?", masked_name(name))
    assert masked_name(name)[:1] in {"", "*", name.strip()[:1]}


@given(st.text(st.sampled_from("0123456789+- ()转x,8８八"), max_size=30))
def test_a_phone_hides_four_digits_and_shows_seven_at_most(phone: str) -> None:
    masked = masked_phone(phone)
    assert re.fullmatch(r"\+?\d{0,3}\*{4}\d{0,4}", masked, re.ASCII)
    digits = re.sub(r"\D", "", phone.translate(str.maketrans("８八", "88")), flags=re.ASCII)
    first, last = masked.lstrip("+").split("****")
    assert len(first + last) + 4 <= max(len(digits), 4)
    assert first in digits and last in digits


@given(
    number=st.from_regex(r"(\+86 ?|0086-?|86 )?1[3-8][0-8]-?[0-8]{4}[ -]?[0-8]{4}", fullmatch=True)
    | st.from_regex(r"0(10|2[1-8])[ -]?[1-8][0-8]{7}", fullmatch=True)
    | st.from_regex(r"0[3-8][1-8]{2}[ -]?[1-8][0-8]{3}[ -]?[0-8]{3,4}", fullmatch=True),
    between=st.sampled_from(
        ["-", " ", "--", " - ", "转", " 转 ", "转分机", "分机", ",", "#", "*", "x", "/", "_"]
    ),
    extension=st.from_regex("9{1,8}", fullmatch=True),
)
def test_nothing_of_an_extension_is_shown(number: str, between: str, extension: str) -> None:
    digits = re.sub(r"\D", "", number)
    assert masked_phone(number + between + extension).endswith(f"****{digits[-4:]}")
    assert "9" not in masked_phone(number + between + extension)
    assert masked_phone(number) == masked_phone(number + between + extension)


@given(TEXTS)
def test_a_remark_keeps_all_but_long_numbers(remark: str) -> None:
    masked = masked_remark(remark)
    assert len(masked) <= len(remark)
    # Letters of rare scripts, beyond the basic plane, count as digits too.
    words = masking._NUMERALS | masking._SPOKEN
    if sum(char.isnumeric() or char in words or char > "\uffff" for char in remark) < 7:
        assert masked == remark
    assert not re.search(r"\d{7}", masked)
    assert not re.search(r"\d(?:[ -]{0,3}\d){6}", masked)


# Every way to divide the eleven digits of a mobile into groups.
WAYS = [[digit + 1 for digit in range(10) if way >> digit & 1] + [11] for way in range(2**10)]


@pytest.mark.parametrize("between", [*",，、;：'/*", " ", "\u3000", ". ", ", ", " ， ", "♥"])
def test_a_mobile_is_hidden_whatever_its_groups(between: str) -> None:
    shown = {}
    for way in WAYS:
        for mobile in ("13800138000", "１９９１２３４５６７８"):
            groups = [mobile[begin:end] for begin, end in zip([0, *way], way, strict=False)]
            remark = f"打{between.join(groups)}，谢谢"
            shown[remark] = masked_remark(remark)
    assert set(shown.values()) == {"打***，谢谢"}, [*shown.items()][:5]


# The patterns one after the other, each on what the one before left: so remarks were masked once.
GROUPED = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["138", "139", "１５７", "1380"]),
    *(st.sampled_from([",", "，", "-", " ", "、 "]), st.sampled_from(["0000", "1234", "12"])) * 2,
)
NUMBERS = st.lists(
    GROUPED | st.sampled_from([*"0３一洞,，- 转a号", "1234", "分机567", "         "]), max_size=8
).map("".join)


@given(TEXTS | NUMBERS)
def test_a_remark_hides_all_that_each_pattern_alone_hides(remark: str) -> None:
    remark = remark.replace("*", "")
    masked = masked_remark(remark)
    one_by_one = masking._MOBILE.sub("***", masking._LONG_NUMBER.sub("***", remark))
    the_other_way = masking._LONG_NUMBER.sub("***", masking._MOBILE.sub("***", remark))
    for looser in (one_by_one, the_other_way):
        position = 0
        for shown in masked.split("***"):
            position = looser.find(shown, position)
            assert position >= 0, (masked, looser)
            position += len(shown)


# -- No text is slow ------------------------------------------------------------------------------
LONG = [
    "a",
    "1",
    "一",
    "A一",
    "文三路",
    "Baker Street ",
    "1号",
    "广",
    " ",
    "，",
    "单",
    "+1 ",
    "1---",
]
LENGTHS = [500, 5_000, 50_000]


def _steps(work: Callable[[], object]) -> int:
    """How many instructions of a masker the work takes, whatever else runs between them."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename not in {masking.__file__, __file__}:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    # What was computed for the text before would hide what this one takes.
    for each in vars(masking).values():
        getattr(each, "cache_clear", lambda: None)()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def _steps_by_length(mask: Callable[[str], str], part: str) -> list[int]:
    texts = [(part * length)[:length] for length in LENGTHS]
    # Since Python 3.12 the instructions of a function are traced from its second call on.
    counts = [_steps(lambda text=text: mask(text)) for text in (texts[0], *texts)]  # type: ignore[misc]
    return counts[1:]


@pytest.mark.parametrize("mask", MASKERS)
def test_a_longer_text_takes_no_more_steps(mask: Callable[[str], str]) -> None:
    for part in LONG:
        shortest, longer, longest = _steps_by_length(mask, part)
        assert 0 < shortest == longer == longest < 5_000, part


def _backtracks(pattern: str) -> bool:
    """Whether a match can try another number of repetitions, the one thing that is not linear."""
    return any(
        str(code) in {"MAX_REPEAT", "MIN_REPEAT"} and low != high
        for code, (low, high) in _repeats(_parsed(pattern))
    )


def _parsed(pattern: str) -> Any:
    return re._parser.parse(pattern)  # type: ignore[attr-defined]


def _repeats(parsed: Any) -> Iterator[tuple[object, tuple[int, int]]]:
    for code, argument in parsed:
        if str(code).endswith("REPEAT"):
            yield code, argument[:2]
        parts = argument if isinstance(argument, (tuple, list)) else [argument]
        for part in parts:
            alternatives = part if isinstance(part, list) else [part]
            for each in alternatives:
                if isinstance(each, type(parsed)):
                    yield from _repeats(each)


PATTERNS = [each.pattern for each in vars(masking).values() if isinstance(each, re.Pattern)]


def test_no_pattern_goes_back() -> None:
    assert PATTERNS
    assert [pattern for pattern in PATTERNS if _backtracks(pattern)] == []


# -- The tests see a fault ------------------------------------------------------------------------
NAIVE = re.compile(
    r"[A-Za-z]?[0-9０-９][0-9０-９A-Za-z#\-－—/]*"
    r"|[一二三四五六七八九十百零〇两甲乙丙丁]+(?=号|栋|幢|单元|室|楼|层|弄|座|户)"
    r"|[A-Za-z]+(?=号|栋|幢|单元|室|楼|座|区)"
)


def _naive(address: str) -> str:
    """Hides what looks like a number, and shows all else."""
    masked, numbers = NAIVE.subn("***", address)
    return masked if numbers else f"{address[: (len(address) + 1) // 2]}***"


def _character_by_character(text: str) -> str:
    return "".join("*" if char.isnumeric() else char for char in text)


def test_a_masker_that_hides_what_it_knows_fails() -> None:
    wrong = [plain for plain, masked in ADDRESSES if _naive(plain) != masked]
    assert len(wrong) > 60
    assert _naive("幸福小区5栋三零二") == "幸福小区***栋三零二"
    assert _naive("阳光花园 2期 贰拾壹号 Flat B") == "阳光花园 ***期 贰拾壹号 Flat B"


def test_a_masker_that_is_not_bounded_or_goes_back_is_seen() -> None:
    shortest, _, longest = _steps_by_length(_character_by_character, "a1")
    assert longest > 50 * shortest
    assert _backtracks(NAIVE.pattern)
    assert _backtracks("(?:a|b(?=c+d))")
    assert not _backtracks("a{4}(?:b++|c)")
