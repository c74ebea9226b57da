"""The table of reasons: whole in both languages, and with the statuses that were decided."""

from string import Formatter

import pytest

from tollway.contract.operation import Operation
from tollway.contract.reasons import SUCCESS, Reason, Refusal
from tollway.operations.catalogue import OPERATIONS

EVERY = pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.name)

# The HTTP statuses of decision 5, by code; where a code has several, by reason.
MAPPED = {0: 200, 100: 400, 101: 504, 103: 400, 200: 500, 203: 501, 302: 403, 401: 401}
MAPPED_BY_REASON = {
    "THROTTLED": 429,
    "BODIES_TOO_MANY": 429,
    "FILES_TOO_MANY": 429,
    "STORE_UNAVAILABLE": 503,
    "COMMIT_IN_DOUBT": 503,
    "ACCOUNT_SUSPENDED": 403,
    "PERMISSION_MISSING": 403,
    "CALLS_USED_UP": 402,
    "CREDITS_USED_UP": 402,
    "PATH_UNKNOWN": 404,
    "METHOD_WRONG": 405,
    "RECEIPT_UNKNOWN": 404,
    "WAYBILL_UNKNOWN": 404,
    "ITEM_UNKNOWN": 404,
    "LIVE_TOKEN_NEEDED": 403,
    "TOKEN_NOT_FOR_THIS": 403,
    "TOKEN_NOT_FROM_HERE": 403,
    "TOKEN_DAY_USED_UP": 402,
    "TOKEN_CANNOT_MAKE": 403,
    "ACCOUNT_LIMIT_REACHED": 403,
}
# The codes of the specification's table.
# What the specification lists for each operation. 401 and 404 apply to all of them, and the coupon
# operation, whose list is empty, has the common ones.
_COMMON = {0, 100, 101, 200, 202, 203, 204, 401, 404}
CODES_LISTED = {
    "product_analysis": _COMMON,
    "coupon_claims": _COMMON,
    "promotion_material": _COMMON | {103, 302},
    "waybills": _COMMON | {103, 302},
    "orders": _COMMON | {103, 302},
}

CODES = {0, 100, 101, 103, 200, 202, 203, 204, 302, 401, 404}


def placeholders(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


@EVERY
def test_every_reason_speaks_both_languages(reason: Reason) -> None:
    message = reason.value.message
    assert message.en.isascii() and message.en.endswith(".")
    assert any("\u4e00" <= character <= "\u9fff" for character in message.zh)
    assert message.zh.endswith("。")


@EVERY
def test_both_languages_say_the_same_things(reason: Reason) -> None:
    message = reason.value.message
    assert placeholders(message.en) == placeholders(message.zh)
    values: dict[str, object] = {name: f"<{name}>" for name in placeholders(message.en)}
    for language in ("en", "zh"):
        message = Refusal(reason, **values).message(language)
        assert all(f"<{name}>" in message for name in values)
        assert "{" not in message


@EVERY
def test_every_reason_has_the_http_status_that_was_decided(reason: Reason) -> None:
    code, status, _ = reason.value
    expected = MAPPED_BY_REASON.get(reason.name) or MAPPED[code]
    assert status == expected


def test_success_is_0_and_200() -> None:
    assert (SUCCESS.code, SUCCESS.status) == (0, 200)


def test_no_code_but_those_of_the_specification_is_answered() -> None:
    assert {reason.value.code for reason in Reason} <= CODES


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_code_that_an_operation_lists_has_a_reason(operation: Operation) -> None:
    assert {0, *(reason.value.code for reason in operation.reasons)} == CODES_LISTED[operation.name]


def test_no_two_reasons_are_one_row() -> None:
    # An Enum would make the second of two equal rows a mere alias of the first.
    assert len(Reason.__members__) == len(list(Reason))
    assert len({reason.value.message for reason in Reason}) == len(list(Reason))


def test_the_messages_of_204_differ() -> None:
    missing = Refusal(Reason.PERMISSION_MISSING)
    calls = Refusal(Reason.CALLS_USED_UP, left=3, cost=5)
    credit = Refusal(Reason.CREDITS_USED_UP, left=3, cost=5)
    for language in ("en", "zh"):
        assert len({each.message(language) for each in (missing, calls, credit)}) == 3
    for used_up in (calls, credit):
        assert "3" in used_up.message("en") and "5" in used_up.message("en")


@EVERY
def test_a_message_never_speaks_of_how_the_gateway_is_built(reason: Reason) -> None:
    for text in reason.value.message:
        for word in ("sqlite", "sql", "exception", "traceback", "python", "/src"):
            assert word not in text.lower()
