"""The descriptor of an operation: the one source of its routing, validation, charging and docs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cached_property
from typing import Any

import msgspec


class Encoding(Enum):
    """How an operation's parameters travel."""

    QUERY = "query"
    FORM = "form"
    JSON = "json"


class Unit(Enum):
    """What a call is paid in."""

    CALLS = "calls"
    CREDITS = "credits"


class OwnerKind(StrEnum):
    """Whose data an operation can touch."""

    SHOP = "shop"
    USER = "user"


@dataclass(frozen=True)
class ConsentNeed:
    """Whose consent a call needs.

    The request's `field` names the owner; `asks` is what the owner reads before approving, to stand
    behind "wants to ...".
    """

    whose: OwnerKind
    field: str
    scope: str
    asks: str


@dataclass(frozen=True)
class Operation:
    """Everything the toll, the docs and the command line need to know about one operation."""

    name: str
    title: str
    method: str
    path: str
    encoding: Encoding
    request_type: type[msgspec.Struct]
    response_type: type[msgspec.Struct]
    unit: Unit
    default_price: int
    codes: tuple[int, ...]
    consent: ConsentNeed | None = None

    @cached_property
    def balance_unit(self) -> str:
        """Which balance pays: each operation has calls of its own, credits are common to all."""
        return f"calls:{self.name}" if self.unit is Unit.CALLS else "credits"


class Caller(msgspec.Struct, frozen=True, gc=False):
    """Who asks, and what the call will cost them if it succeeds."""

    account_id: str
    price: int


# A handler takes the decoded request and gives the payload, encoded as it stands in the envelope.
Handler = Callable[[Any, Caller], Awaitable[bytes]]
