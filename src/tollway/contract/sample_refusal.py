"""A sample refusal for each reason, for the OpenAPI document, the reference, and the sandbox."""

from collections.abc import Sequence
from typing import Any

from tollway.contract.decoding import DeclaredField, declared_fields
from tollway.contract.fields import Field, InvalidValueError
from tollway.contract.language import Phrase
from tollway.contract.operation import OWNER_KINDS, Encoding, Operation, Unit
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.request_parsing import BODY, NOT_UTF8, QUERY

# The ends of windows, as operations name them.
_WINDOWS = {
    "start": ("startTime", "start_time", "from_date"),
    "end": ("endTime", "end_time", "to_date"),
}


SAMPLE_BASE = "https://gateway.example"
_DAY_S = 86_400


def sample_data(reason: Reason, base: str, at_s: int) -> dict[str, Any]:
    """The data of an answer with this reason, at this moment."""
    if reason is not Reason.NOT_AUTHORIZED:
        return {}
    return {"authorize_url": f"{base}/authorize?link=…", "expires_at": at_s + _DAY_S}


def _problem(field: Field) -> Phrase:
    """The problem with a value of the wrong type."""
    try:
        field.kind.read({})
    except InvalidValueError as unfit:
        return unfit.problem
    # A field of an installed operation may accept an object.
    return Phrase("it is in another form", "格式不符")


# What can be wrong with a value also where there are no parameters.
NO_DRY_RUN: dict[str, object] = {
    "field": "X-Tollway-Dry-Run",
    "problem": Phrase("the account API has no dry run", "账户接口不支持试算"),
    "expected": Phrase("the request without it", "不带此请求头的请求"),
}
_UNITS = {Unit.CALLS: Phrase("calls", "调用次数"), Unit.CREDITS: Phrase("credits", "点数")}
# Values that fit most refusals.
_VALUES: dict[str, object] = {
    **NO_DRY_RUN,
    "limit": 10,
    "limit_s": 10,
    "left": 0,
    "today": "2026-01-01",
    "owner": Phrase("shop", "店铺"),
    "span": Phrase("8 days", "8 天"),
    "longest": Phrase("7 days", "7 天"),
    "address": "203.0.113.7",
    "most": 200,
    "why": Phrase("its label was printed", "面单已打印"),
    "which": Phrase("limit", "上限"),
    "things": Phrase("valid tokens", "的有效令牌"),
    "advice": Phrase("revoke those that are not used", "请撤销不再使用的令牌"),
    "carriers": Phrase("send one of YTO, SF", "请传入 YTO、SF 之一"),
    "wait_s": 60,
    "number": "YT1000000000001",
}
# Of what an endpoint makes, by the end of its path, and how many it may in a day.
_DAILY = {
    "tokens/rotate": (Phrase("token rotations", "轮换的令牌"), 200),
    "webhooks/make": (Phrase("new webhooks", "新建的回调"), 50),
    "webhooks/rotate": (Phrase("new webhook secrets", "更换的回调密钥"), 50),
    "webhooks/test": (Phrase("test events", "发送的测试事件"), 200),
    "alerts/set": (Phrase("alert changes", "更改的提醒"), 200),
}


def sample_refusal(reason: Reason, operation: Operation) -> Refusal:
    """A refusal of this operation, with values that fit its fields."""
    values = {
        **_VALUES,
        "cost": operation.default_price or 1,
        "unit": _UNITS[operation.unit],
        "allowed": operation.method,
        # One that the token is limited to instead.
        "operations": "orders" if operation.charged_as != "orders" else "waybills",
        "part": QUERY if operation.encoding is Encoding.QUERY else BODY,
    }
    values |= _values_of_fields(reason, declared_fields(operation.request_type))
    if reason is Reason.BODY_UNREADABLE:
        values["problem"] = NOT_UTF8
    need = operation.consent
    if need is not None and reason in (Reason.NOT_AUTHORIZED, Reason.OWNER_UNKNOWN):
        values["owner"], values["field"] = OWNER_KINDS[need.whose], need.field
    daily = _DAILY.get(operation.path.partition("/v1/")[2])
    if reason is Reason.ACCOUNT_LIMIT_REACHED and daily is not None:
        values["things"], values["most"] = daily
        values["which"] = Phrase("daily limit", "每日上限")
        values["advice"] = Phrase("try again tomorrow", "请明天再试")
    if reason is Reason.BODY_TOO_LARGE:
        values["limit"] = operation.body_max_bytes
    if reason is Reason.FILES_TOO_MANY:
        values["most"] = 2
    return Refusal(reason, **values)


def _values_of_fields(reason: Reason, fields: Sequence[DeclaredField]) -> dict[str, object]:
    if not fields:
        return {}
    names = [each.name for each in fields]
    # A parameter that is missing is a required one.
    fitting = [each for each in fields if each.required or reason is not Reason.PARAMETER_MISSING]
    doubled = next((each for each in fitting if each.other_names), fitting[0])
    values: dict[str, object] = {
        "field": doubled.name,
        "known": doubled.name,
        "other": next(iter(doubled.other_names), doubled.name),
        "expected": doubled.field.kind.expected,
        # The first ones are the key of what differs.
        "fields": names[-1],
    }
    for end, known in _WINDOWS.items():
        values[end] = next((each for each in known if each in names), known[0])
    if "from_date" in names:
        values |= {"span": Phrase("32 days", "32 天"), "longest": Phrase("31 days", "31 天")}
    if reason is Reason.PARAMETER_INVALID:
        values["problem"] = _problem(doubled.field)
    if reason is Reason.PARAMETER_UNKNOWN:
        values["field"] = f"{doubled.name}s"
    if reason is Reason.FILTER_NEEDS_ENHANCED:
        values["field"] = names[-1]
    return values
