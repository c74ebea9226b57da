"""A sample refusal for each reason, for the OpenAPI document, the reference, and the sandbox."""

from typing import Any

from tollway.contract.decoding import declared_fields
from tollway.contract.fields import Field, InvalidValueError
from tollway.contract.language import Phrase
from tollway.contract.operation import OWNER_KINDS, Operation
from tollway.contract.reasons import Reason, Refusal

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


# Values that fit most refusals.
_VALUES: dict[str, object] = {
    "field": "name",
    "other": "name",
    "known": "name",
    "expected": Phrase("another value", "其他值"),
    "problem": Phrase("it is empty", "为空"),
    "part": Phrase("request", "请求"),
    "limit": 10,
    "limit_s": 10,
    "left": 0,
    "today": "2026-01-01",
    "fields": "name",
    "owner": Phrase("shop", "店铺"),
    "start": "startTime",
    "end": "endTime",
    "span": Phrase("8 days", "8 天"),
    "longest": Phrase("7 days", "7 天"),
    "address": "203.0.113.7",
    "most": 100,
    "unit": Phrase("calls", "调用次数"),
    "why": Phrase("its label was printed", "面单已打印"),
    "which": Phrase("limit", "上限"),
    "things": Phrase("valid tokens", "的有效令牌"),
    "advice": Phrase("revoke those that are not used", "请撤销不再使用的令牌"),
    "carriers": Phrase("send one of YTO, SF", "请传入 YTO、SF 之一"),
    "wait_s": 60,
    "number": "YT1000000000001",
}


def sample_refusal(reason: Reason, operation: Operation) -> Refusal:
    """A refusal of this operation, with values that fit its fields."""
    values = {
        **_VALUES,
        "cost": operation.default_price or 1,
        "allowed": operation.method,
        "operations": operation.name,
    }
    fields = declared_fields(operation.request_type)
    if fields:
        doubled = next((each for each in fields if each.other_names), fields[0])
        values["field"] = values["known"] = doubled.name
        values["other"] = next(iter(doubled.other_names), doubled.name)
        values["expected"] = doubled.field.kind.expected
        values["fields"] = fields[0].name
        names = [each.name for each in fields]
        for end, known in _WINDOWS.items():
            values[end] = next((each for each in known if each in names), values[end])
        if reason is Reason.PARAMETER_INVALID:
            values["problem"] = _problem(doubled.field)
        if reason is Reason.PARAMETER_UNKNOWN:
            values["field"] = f"{doubled.name}s"
        if reason is Reason.FILTER_NEEDS_ENHANCED:
            values["field"] = names[-1]
    need = operation.consent
    if need is not None and reason in (Reason.NOT_AUTHORIZED, Reason.OWNER_UNKNOWN):
        values["owner"], values["field"] = OWNER_KINDS[need.whose], need.field
    if reason is Reason.BODY_TOO_LARGE:
        values["limit"] = operation.body_max_bytes
    return Refusal(reason, **values)
