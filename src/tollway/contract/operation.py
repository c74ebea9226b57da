"""The descriptor of an operation: the one source of its routing, validation, charging and docs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import cached_property, partial
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from tollway.contract.decoding import declared_fields
from tollway.contract.fields import Choice
from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason
from tollway.contract.request_parsing import PARAMETERS_MAX

_OF_ANY_CALL = (
    Reason.PARAMETER_REPEATED,
    Reason.BODY_UNREADABLE,
    Reason.IDEMPOTENCY_KEY_INVALID,
    Reason.IDEMPOTENCY_KEY_REUSED,
    Reason.TIMED_OUT,
    Reason.INTERNAL,
    Reason.THROTTLED,
    Reason.STORE_UNAVAILABLE,
    Reason.COMMIT_IN_DOUBT,
    Reason.OPERATION_CLOSED,
    Reason.ACCOUNT_SUSPENDED,
    Reason.PERMISSION_MISSING,
    Reason.TOKEN_NOT_FOR_THIS,
    Reason.TOKEN_NOT_FROM_HERE,
    Reason.TOKEN_DAY_USED_UP,
    Reason.CREDENTIAL_INVALID,
    Reason.PATH_UNKNOWN,
    Reason.METHOD_WRONG,
)
_OF_CONSENT = (Reason.OWNER_UNKNOWN, Reason.NOT_AUTHORIZED)
OF_A_BODY = (Reason.BODY_TOO_LARGE, Reason.BODY_TIMED_OUT, Reason.BODIES_TOO_MANY)


# Raises a Refusal if parameters that are valid by themselves do not go together. The zone is that
# of wall-clock times.
RequestCheck = Callable[[Any, ZoneInfo], None]


# Makes a payload that only the sandbox answers with, from the request and the caller's language.
SandboxOutcome = Callable[[Any, str], msgspec.Struct]


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


OWNER_KINDS = {OwnerKind.SHOP: Phrase("shop", "店铺"), OwnerKind.USER: Phrase("user", "用户")}


# The values of `vvtype`.
ENHANCED, NORMAL = 1, 2
EDITIONS = Choice(((ENHANCED, Phrase("enhanced", "增强版")), (NORMAL, Phrase("normal", "普通版"))))
# More pages than any list has, and small enough for the integers of any client.
PAGE_MAX = 2_147_483_647


@dataclass(frozen=True)
class ConsentNeed:
    """Whose consent a call needs.

    The request's `field` names the owner; `asks` is what the owner reads before approving, worded
    to follow "wants to ..."; in Chinese to follow 可以.
    """

    whose: OwnerKind
    field: str
    scope: str
    asks: str | Phrase


RecordCount = Callable[[bytes], int]


def records_with(mark: str) -> RecordCount:
    """Counts the records of an encoded answer by a mark that each has once. Quotes in a text are
    escaped, so a mark that starts with a quote never matches inside one."""
    return partial(_count, mark.encode())


def _count(mark: bytes, data: bytes) -> int:
    return data.count(mark)


@dataclass(frozen=True)
class Operation:
    """Everything the pipeline, the docs and the command line need to know about one operation.

    The catalogue of the pages has the Chinese texts of built-in operations. The texts of an
    installed package are a `Phrase`, or the same in both languages.
    """

    name: str
    title: str | Phrase
    method: str
    path: str
    encoding: Encoding
    request_type: type[msgspec.Struct]
    response_type: type[msgspec.Struct]
    unit: Unit
    default_price: int
    consent: ConsentNeed | None = None
    # Runs while decoding, because wrong parameters are reported before a missing consent.
    check: RequestCheck | None = None
    # Answers that a test call can ask for by name, each made from the request.
    sandbox_outcomes: Mapping[str, SandboxOutcome] = field(default_factory=dict)
    # The reasons that only this operation has; `reasons` adds those of any call.
    own_reasons: tuple[Reason, ...] = ()
    # Whether a success can be free: then an empty balance alone does not refuse a call.
    may_be_free: bool = False
    # If it is another call on the data of an operation: the name of that one, whose permission,
    # price, limits and counts it shares.
    belongs_to: str = ""
    # Parameters of that operation by which this one does not choose its records. To ignore one
    # would sell other records than the caller asked for.
    not_taken: tuple[str, ...] = ()
    # The operation whose requests one call of this batches.
    batch_of: "Operation | None" = None
    # The work says how many times to charge the price, so a dry run does the work too; it only
    # reads.
    is_measured: bool = False
    # Answers with a file of JSON Lines, free of charge, instead of an envelope; each line is a
    # `response_type`.
    is_file: bool = False
    # A larger body is refused unread. The default fits a usual request with every text at its full
    # length, however it is escaped.
    body_max_bytes: int = 16_384
    # How many members all objects of a JSON body may have together.
    members_max: int = PARAMETERS_MAX
    # A note on the answers, for the reference.
    note: str | Phrase = ""
    # Counts an owner's records in an encoded answer; None if they cannot be counted.
    count_records: RecordCount | None = None

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """Every reason a call of this operation can be refused for."""
        used_up = Reason.CALLS_USED_UP if self.unit is Unit.CALLS else Reason.CREDITS_USED_UP
        body = () if self.encoding is Encoding.QUERY else OF_A_BODY
        consent = () if self.consent is None else _OF_CONSENT
        if self.consent is not None and self.consent.whose is OwnerKind.SHOP:
            consent = (*consent, Reason.ANSWER_ERASED)
        file = (Reason.FILES_TOO_MANY,) if self.is_file else ()
        return (
            *self.of_parameters,
            *_OF_ANY_CALL,
            *body,
            *consent,
            *file,
            used_up,
            *self.own_reasons,
        )

    @cached_property
    def outcomes(self) -> tuple[str, ...]:
        """What a test call can ask for by name: what a call of this operation can get."""
        return (*(each.name for each in self.reasons), *self.sandbox_outcomes)

    @cached_property
    def of_parameters(self) -> tuple[Reason, ...]:
        """The reasons that only some kinds of parameters have."""
        fields = declared_fields(self.request_type)
        have = {
            Reason.PARAMETER_MISSING: any(each.required for each in fields),
            Reason.PARAMETER_UNKNOWN: bool(fields),
            # Without parameters, that of a header: a dry run of a change of the account.
            Reason.PARAMETER_INVALID: bool(fields) or self.encoding is not Encoding.QUERY,
            Reason.SPELLINGS_CONFLICT: any(each.other_names for each in fields),
        }
        return tuple(reason for reason, has_it in have.items() if has_it)

    @cached_property
    def charged_as(self) -> str:
        """The operation's name in permissions, limits and the ledger."""
        return self.belongs_to or self.name

    @cached_property
    def balance_unit(self) -> str:
        """Which balance pays: each operation has calls of its own, credits are common to all."""
        return f"calls:{self.charged_as}" if self.unit is Unit.CALLS else "credits"


class CallInfo(msgspec.Struct, frozen=True, gc=False):
    """Who asks, what the call will cost them if it succeeds, and which language they read."""

    account_id: str
    price: int
    language: str = "en"
