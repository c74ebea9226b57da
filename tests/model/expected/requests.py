"""What the parameters of a request mean: the values that are asked for, or why it is refused."""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tests.model.expected.refusals import RefusedError, invalid

Parameters = Mapping[str, Any]
_ZONE = ZoneInfo("Asia/Shanghai")
_MILLISECONDS_FROM = 100_000_000_000
_WEEK_S = 604_800
_ENHANCED_ONLY = ("start_time", "end_time", "remark", "remarkTag", "remarkTagName")


class Field(NamedTuple):
    """How a parameter is read, and what it is if it is left out; one without that is required."""

    read: Callable[[str], Any]
    otherwise: Any = ...


def _text(raw: str) -> str:
    if not raw or "\0" in raw:
        raise invalid()
    return raw


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(raw: str) -> int:
        if not re.fullmatch("-?[0-9]{1,18}", raw) or not least <= int(raw) <= most:
            raise invalid()
        return int(raw)

    return read


def _one_of(*choices: int) -> Callable[[str], int]:
    def read(raw: str) -> int:
        if raw not in [str(each) for each in choices]:
            raise invalid()
        return int(raw)

    return read


def _day(raw: str) -> date:
    if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", raw):
        raise invalid()
    try:
        return date.fromisoformat(raw)
    except ValueError:
        raise invalid() from None


def _moment_ms(raw: str) -> int:
    """Seconds, milliseconds, or a time on the wall."""
    if re.fullmatch("[0-9]{1,18}", raw):
        number = int(raw)
        return number if number >= _MILLISECONDS_FROM else number * 1000
    try:
        wall = datetime.strptime(raw, "%Y-%m-%d %H:%M:%S").replace(tzinfo=_ZONE)
    except ValueError:
        raise invalid() from None
    return int(wall.timestamp() * 1000)


_SECONDS = _whole(0, _MILLISECONDS_FROM - 1)
_ID = _whole(1, 10**18 - 1)
_FIELDS: dict[str, dict[str, Field]] = {
    "product_analysis": {"product_id": Field(_text), "query_date": Field(_day)},
    "coupon_claims": {
        "startTime": Field(_SECONDS),
        "endTime": Field(_SECONDS),
        "page": Field(_whole(1, 2_147_483_647)),
        "limit": Field(_whole(1, 1000)),
        "sid": Field(_text),
        "type": Field(_one_of(4, 6)),
    },
    "promotion_material": {
        "promotion_id": Field(_ID),
        "platform_user_id": Field(_ID),
        "site_id": Field(_ID),
        "adzone_id": Field(_ID),
        "page_size": Field(_whole(1, 10), 10),
        "page_num": Field(_whole(1, 1_000_000), 1),
    },
    "orders": {
        "owner_id": Field(_text),
        "vvtype": Field(_one_of(1, 2), 1),
        "page": Field(_whole(0, 1_000_000_000), 0),
        "pageSize": Field(_whole(1, 100), 100),
        "start_time": Field(_moment_ms, None),
        "end_time": Field(_moment_ms, None),
        "remark": Field(_text, None),
        "remarkTag": Field(_one_of(1, 2, 3, 4, 5), None),
        "remarkTagName": Field(_text, None),
    },
}


def read_parameters(operation: str, sent: Parameters) -> dict[str, Any]:
    """The values of a request's parameters; raises RefusedError."""
    sent = _one_spelling(sent) if operation == "promotion_material" else sent
    asked: dict[str, Any] = {}
    for name, field in _FIELDS[operation].items():
        if name in sent:
            asked[name] = field.read(str(sent[name]))
        elif field.otherwise is ...:
            raise RefusedError(100, "PARAMETER_MISSING")
        else:
            asked[name] = field.otherwise
    _check_together(operation, asked)
    return asked


def _one_spelling(sent: Parameters) -> Parameters:
    """`material_id` is another spelling of `promotion_id`."""
    if "material_id" not in sent:
        return sent
    if sent.get("promotion_id", sent["material_id"]) != sent["material_id"]:
        raise RefusedError(100, "SPELLINGS_CONFLICT")
    return {**sent, "promotion_id": sent["material_id"]}


def _check_together(operation: str, asked: Mapping[str, Any]) -> None:
    if operation == "orders":
        if asked["vvtype"] == 2 and any(asked[name] is not None for name in _ENHANCED_ONLY):
            raise RefusedError(100, "FILTER_NEEDS_ENHANCED")
        start, end = asked["start_time"], asked["end_time"]
        if start is not None and end is not None and end <= start:
            raise RefusedError(100, "WINDOW_BACKWARDS")
    if operation == "coupon_claims":
        if asked["endTime"] <= asked["startTime"]:
            raise RefusedError(100, "WINDOW_BACKWARDS")
        if asked["endTime"] - asked["startTime"] > _WEEK_S:
            raise RefusedError(100, "WINDOW_TOO_LONG")
