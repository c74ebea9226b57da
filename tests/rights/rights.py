"""What a caller may do at which moment, and whether an answer agrees with that.

What has ended refuses each call that is sent after the acknowledgement. What was given or given
back may be unknown to a node for `known_after_s`: until then it may refuse from memory.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple

from tests.model.expected.history import History, Span

SUCCESS, THROTTLED = "SUCCESS", "THROTTLED"
# A file that ended early: its receiver lost the right to it meanwhile.
BROKEN_OFF = "BROKEN_OFF"
# No limit that these campaigns could reach.
RATE = 1_000_000
_WINDOW_S = 1.0


class Right:
    """Something that calls need, and the reason with which they are refused without it."""

    def __init__(self, reason: str, *, is_held: bool = True) -> None:
        self.reason = reason
        self._history = History(is_held)
        self._changed_s = 0.0

    @contextmanager
    def changing_to(self, is_held: bool) -> Iterator[None]:
        """It is taken away, or given, and that is acknowledged, within the block."""
        with self._history.changing_to(is_held):
            yield
        self._changed_s = monotonic()

    def changed_before_s(self, span: Span) -> float:
        """How long before a span the last change was."""
        return span.sent_s - self._changed_s

    def has_ended(self, span: Span) -> bool:
        """Whether it was not held at any moment of a span."""
        return True not in self._history.within(span)

    def may_be_missing(self, span: Span, known_after_s: float = 0.0) -> bool:
        """Whether a node may know of some moment of a span that it was not held."""
        return False in self._history.within(Span(span.sent_s - known_after_s, span.answered_s))


class Outcome(NamedTuple):
    """The answer to a call, or to one request of a batch."""

    reason: str
    request_id: str
    paid: int


class DayCap:
    """What a token may spend, shared with those that replace it, and what is known to be spent."""

    def __init__(self, credits_max: int) -> None:
        self.credits_max = credits_max
        self.spent = 0


@dataclass
class Token:
    """A token, and what it is limited to."""

    text: str
    id: str
    is_test: bool = False
    operation: str | None = None
    cap: DayCap | None = None
    valid: Right = field(default_factory=lambda: Right("CREDENTIAL_INVALID"))


@dataclass
class Account:
    """An account, what it may do, and what calls have cost it."""

    id: str
    # These two never end.
    base: Token
    test: Token
    active: Right = field(default_factory=lambda: Right("ACCOUNT_SUSPENDED"))
    permitted: dict[str, Right] = field(default_factory=dict)
    consents: dict[str, Right] = field(default_factory=dict)
    consent_ids: dict[str, str] = field(default_factory=dict)
    funds: dict[str, Right] = field(default_factory=dict)
    prices: dict[str, History[int]] = field(default_factory=dict)
    rates: dict[str, History[int]] = field(default_factory=dict)
    # Of each unit, what was added less what was taken back.
    added: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    # The others: each of them ends some time.
    tokens: list[Token] = field(default_factory=list)
    # What calls paid, by request; and those that must have cost nothing.
    paid: dict[str, tuple[str, int]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    # What calls ask for that need something from before.
    kept: dict[str, str] = field(default_factory=dict)


class Needs(NamedTuple):
    """What a call needed when it was sent."""

    rights: list[Right]
    prices: History[int] | None
    rates: History[int] | None
    # What is left of the cap, in credits.
    left: int | None
    also: frozenset[str]

    def fault_of(self, outcome: Outcome, span: Span, known_after_s: float) -> str | None:
        """What is wrong with an answer."""
        since = Span(span.sent_s - known_after_s, span.answered_s)
        prices = [0] if self.prices is None else self.prices.within(since)
        is_used_up = self.left is not None and self.left < min(prices)
        if outcome.reason == SUCCESS:
            ended = [each.reason for each in self.rights if each.has_ended(span)]
            if ended or is_used_up:
                return f"success in place of {ended or 'TOKEN_DAY_USED_UP'}"
            return None if outcome.paid in prices else f"took {outcome.paid}, and not {prices}"
        return None if self._may_refuse(outcome.reason, span, known_after_s) else outcome.reason

    def must_be_refused(self, span: Span) -> bool:
        return any(each.has_ended(span) for each in self.rights)

    def out_of_date_s(self, reason: str, span: Span) -> float | None:
        """How long its reason was over when a call was sent; None if it was not."""
        own = [each for each in self.rights if each.reason == reason]
        if not own or any(each.may_be_missing(span) for each in own):
            return None
        return min(each.changed_before_s(span) for each in own)

    def is_slow(self, span: Span) -> bool:
        """Whether the rate was low all the while."""
        return self.rates is not None and max(self.rates.within(span)) < RATE

    def _may_refuse(self, reason: str, span: Span, known_after_s: float) -> bool:
        if reason == BROKEN_OFF:
            return any(each.may_be_missing(span) for each in self.rights)
        if reason == THROTTLED and self.rates is not None:
            since_s = span.sent_s - known_after_s - _WINDOW_S
            return min(self.rates.within(Span(since_s, span.answered_s))) < RATE
        if reason == "TOKEN_DAY_USED_UP":
            return self.left is not None
        return reason in self.also or any(
            each.reason == reason and each.may_be_missing(span, known_after_s)
            for each in self.rights
        )


def most_in_a_second(spans: Iterable[Span]) -> int:
    """How many of these calls were certainly admitted within one second."""
    known = sorted(spans)
    return max(
        (
            sum(
                one.sent_s <= each.sent_s and each.answered_s < one.sent_s + _WINDOW_S
                for each in known
            )
            for one in known
        ),
        default=0,
    )
