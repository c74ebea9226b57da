"""Between JSON and the dataclasses of `types.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, datetime, timezone
from functools import cache
from typing import (
    Any,
    Optional,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Meta:
    """What came around a payload."""

    request_id: str
    msec: int
    time: int
    # The request whose stored answer this is; None if this call did the work.
    replay_of: Optional[str]
    headers: Mapping[str, str] = field(repr=False)
    # That of the call, if it had one: with it the call can be repeated within a day.
    idempotency_key: Optional[str] = None


@dataclass(frozen=True)
class Payload:
    """The base of all payloads."""

    meta: Meta = field(init=False, repr=False, compare=False)


@dataclass(frozen=True)
class Cost(Payload):
    """What a call would cost now: at most `cost` of the balance `unit`, which has `left`."""

    cost: int
    unit: str
    left: int


def read(kind: type[T], value: Any) -> T:
    """The value as its declared type. Fields that this version does not know are left out."""
    found: T = _read(kind, value)
    return found


def _read(kind: Any, value: Any) -> Any:
    origin = get_origin(kind)
    if origin is list:
        (each,) = get_args(kind)
        return [_read(each, item) for item in value]
    if origin is Union:
        if value is None:
            return None
        return _read(get_args(kind)[0], value)
    if isinstance(kind, type) and is_dataclass(kind):
        known = {
            name: _read(hint, value[name]) for name, hint in _hints(kind).items() if name in value
        }
        return kind(**known)
    return value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if each.init}


def on_the_wire(value: Any) -> Any:
    """A parameter as it is sent. A time without a zone is in the zone of the gateway."""
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            # Not a number: some times are counted in seconds, others in milliseconds.
            at = value.astimezone(timezone.utc).replace(tzinfo=None)
            return f"{at.isoformat(timespec='milliseconds')}Z"
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return value.isoformat() if isinstance(value, date) else value
