"""What a call is answered with, given everything that decides it at one moment.

It passes these stages, and the first that refuses it decides: path and method, token, permission,
balance, parameters, consent, Idempotency-Key, data. The balance is looked at once more when the
call is charged, and may be known less exactly before.
"""

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tests.model.expected.accounts import Account, Between
from tests.model.expected.outcomes import Ask, Consent, Outcome, refused, replayed
from tests.model.expected.refusals import RefusedError

# Who must have agreed to a call: the kind of owner, and the parameter that names it.
OWNERS = {"orders": ("shop", "owner_id"), "promotion_material": ("user", "platform_user_id")}
SANDBOX_PRODUCTS = ("620145000100", "620145000137", "620145000174")
_ZONE = ZoneInfo("Asia/Shanghai")


class Permission(NamedTuple):
    """An account may call an operation, at a price of its own or at the common one."""

    price: int | None


class Facts(NamedTuple):
    """Everything that decides a call, at one moment."""

    is_valid: bool
    is_closed: bool
    permission: Permission | None
    price: int
    is_known: bool
    consent: Consent | None
    data: Any


class Decision:
    """One call: what it asks for, or why its parameters are refused."""

    def __init__(
        self, ask: Ask, asked: dict[str, Any] | RefusedError, account: Account, *, is_test: bool
    ) -> None:
        self._ask = ask
        self._asked = asked
        self._account = account
        self._is_test = is_test

    def outcomes(self, facts: Facts, at: Between) -> Iterator[Outcome]:
        if not facts.is_valid:
            yield refused(401, "CREDENTIAL_INVALID")
        elif facts.is_closed:
            yield refused(203, "OPERATION_CLOSED")
        elif facts.permission is None:
            yield refused(204, "PERMISSION_MISSING")
        elif isinstance(self._asked, RefusedError):
            yield from self._or_short(self._asked, facts)
        elif self._is_test:
            yield self._sandbox(self._asked)
        else:
            yield from self._permitted(self._asked, facts, at)

    def _permitted(self, asked: dict[str, Any], facts: Facts, at: Between) -> Iterator[Outcome]:
        operation, price = self._ask.operation, self._price(facts)
        try:
            consent = _consent(operation, facts)
            if not _is_key(self._ask.key):
                raise RefusedError(100, "IDEMPOTENCY_KEY_INVALID")
            kept = self._account.kept.get(self._ask.key or "")
            if kept is not None:
                if (kept.operation, kept.asked) != (operation, asked):
                    raise RefusedError(100, "IDEMPOTENCY_KEY_REUSED")
                yield replayed(kept)
                return
        except RefusedError as error:
            yield from self._or_short(error, facts)
            return
        for moment in _moments(operation, asked, facts.data, at):
            try:
                data = _data(operation, asked, facts.data, price, moment)
            except RefusedError as error:
                yield from self._or_short(error, facts)
            else:
                paid = Outcome(0, "SUCCESS" if price else "FREE", data, price, consent=consent)
                yield self._shortage(facts) or paid

    def _price(self, facts: Facts) -> int:
        assert facts.permission is not None
        own = facts.permission.price
        return facts.price if own is None else own

    def _shortage(self, facts: Facts) -> Outcome | None:
        operation = self._ask.operation
        if self._is_test or self._account.left(operation) >= self._price(facts):
            return None
        unit = "CALLS" if operation == "product_analysis" else "CREDITS"
        return refused(204, f"{unit}_USED_UP")

    def _or_short(self, error: RefusedError, facts: Facts) -> Iterator[Outcome]:
        """An account that is short is refused for that first. Another process may have taken the
        last of its balance a moment ago: then the parameters decide."""
        short = self._shortage(facts)
        if short is not None:
            yield short
        yield refused(error.code, error.reason)

    def _sandbox(self, asked: dict[str, Any]) -> Outcome:
        """Made-up data, which is not compared."""
        if asked["product_id"] not in SANDBOX_PRODUCTS:
            return refused(100, "PRODUCT_UNKNOWN")
        return Outcome(0, "FREE", None)


def _is_key(key: str | None) -> bool:
    return key is None or (1 <= len(key) <= 255 and key.isascii() and key.isprintable())


def _consent(operation: str, facts: Facts) -> Consent | None:
    """The consent that a call is made under."""
    if operation not in OWNERS:
        return None
    if not facts.is_known:
        raise RefusedError(103, "OWNER_UNKNOWN")
    if facts.consent is None:
        raise RefusedError(302, "NOT_AUTHORIZED")
    return facts.consent


def _moments(operation: str, asked: Mapping[str, Any], data: Any, at: Between) -> list[Any]:
    """What the clock may have said, as far as it makes a difference."""
    if operation == "product_analysis":
        return sorted({_day(at.first_ms), _day(at.last_ms)})
    if operation == "promotion_material":
        moments: list[int] = data.moments_ms(asked["promotion_id"], *at)
        return moments
    return [None]


def _day(at_ms: int) -> date:
    return datetime.fromtimestamp(at_ms / 1000, _ZONE).date()


def _data(
    operation: str, asked: Mapping[str, Any], data: Any, price: int, moment: Any
) -> dict[str, Any]:
    found: dict[str, Any]
    if operation == "product_analysis":
        found = data.analysis(asked["product_id"], asked["query_date"], moment)
    elif operation == "promotion_material":
        found = data.page(asked, price, moment)
    else:
        found = data.page(asked, price)
    return found
