"""What the parameters of a request mean: the values that are asked for, or why it is refused."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tests.model.expected.refusals import RefusedError, invalid

Parameters = Mapping[str, Any]
_ZONE = ZoneInfo("Asia/Shanghai")
_MILLISECONDS_FROM = 100_000_000_000
_MILLISECONDS_MAX = 253_402_300_799_999
_WEEK_S = 604_800
_WALL_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M", "%Y-%m-%d")
# The names of answers, and the older name of a user; each means one of the interface.
_OTHER_NAMES = {
    "material_id": "promotion_id",
    "taobao_user_id": "platform_user_id",
    "page_size": "pageSize",
    "remark_tag": "remarkTag",
    "remark_tag_name": "remarkTagName",
    "start_time": "startTime",
    "end_time": "endTime",
    "pageNum": "page_num",
}
_ENHANCED_ONLY = ("start_time", "end_time", "remark", "remarkTag", "remarkTagName")
_MISSPELLED = ("PageSize", "remarktag", "sidd", "Product_id", "adzoneid")


class Field(NamedTuple):
    """How a parameter is read, and what it is if it is left out; one without that is required."""

    read: Callable[[str], Any]
    otherwise: Any = ...


def _text(raw: str) -> str:
    if "\0" in raw:
        raise invalid()
    return raw


def _searched(raw: str) -> str:
    """What is searched for keeps its spaces."""
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
    """Seconds, milliseconds, or a written time: on the wall, or with an offset."""
    if re.fullmatch("[0-9]{1,18}", raw):
        number = int(raw)
        if number > _MILLISECONDS_MAX:
            raise invalid()
        return number if number >= _MILLISECONDS_FROM else number * 1000
    for form in _WALL_FORMS:
        with suppress(ValueError):
            wall = datetime.strptime(raw, form)  # noqa: DTZ007 - one form has an offset
            known = wall if wall.tzinfo is not None else wall.replace(tzinfo=_ZONE)
            return int(known.timestamp() * 1000)
    raise invalid()


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
        "page_num": Field(_whole(1, 2_147_483_647), 1),
    },
    "orders": {
        "owner_id": Field(_text),
        "vvtype": Field(_one_of(1, 2), 1),
        "page": Field(_whole(0, 2_147_483_647), 0),
        "pageSize": Field(_whole(1, 100), 100),
        "start_time": Field(_moment_ms, None),
        "end_time": Field(_moment_ms, None),
        "remark": Field(_searched, None),
        "remarkTag": Field(_one_of(1, 2, 3, 4, 5), None),
        "remarkTagName": Field(_searched, None),
    },
}


def read_parameters(operation: str, sent: Parameters) -> dict[str, Any]:
    """The values of a request's parameters; raises RefusedError."""
    fields = _FIELDS[operation]
    sent = _by_own_name(sent, fields)
    asked: dict[str, Any] = {}
    for name, field in fields.items():
        if name in sent:
            value = sent[name]
            asked[name] = field.read(value if field.read is _searched else value.strip())
        elif field.otherwise is ...:
            raise RefusedError(100, "PARAMETER_MISSING")
        else:
            asked[name] = field.otherwise
    _check_together(operation, asked)
    return asked


def _by_own_name(sent: Parameters, fields: Mapping[str, Field]) -> dict[str, str]:
    """What was sent, by the interface's names; what is blank was not."""
    found: dict[str, str] = {}
    for name, value in sent.items():
        own = name if name in fields else _OTHER_NAMES.get(name, name)
        text = str(value)
        if own not in fields:
            if name in _MISSPELLED:
                raise RefusedError(100, "PARAMETER_UNKNOWN")
        elif text.strip() and found.setdefault(own, text) != text:
            raise RefusedError(100, "SPELLINGS_CONFLICT")
    return found


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
