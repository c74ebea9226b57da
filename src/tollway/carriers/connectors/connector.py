"""What a gateway asks of a carrier, and the possible outcomes. Protocols implement `Connector`.

    ConnectorError
     ├── NotSentError         nothing was done at the carrier; it can safely be asked again
     │    ├── TurnedAwayError   the same, but there was an answer
     │    └── LinkRefusedError  the same, and so it would be for every message
     └── OutcomeUnknownError  it may have been done or not; only look_up can tell
          └── AnswerUnusableError  the same, but the carrier did answer
               └── NoLookUpError   the protocol cannot ask: the operator has to decide

A refusal by the carrier is no error but an answer, `Declined`.
"""

from typing import Protocol, runtime_checkable

import msgspec

from tollway.carriers.labels.print_data import Party, RoutingInfo
from tollway.contract.language import Phrase, SentenceError


class OrderRef(msgspec.Struct, frozen=True):
    """Which waybill a message is about; `task_id` is the gateway's own id of it, and unique."""

    task_id: str
    owner_id: str
    order_sn: str


class IssueOrder(msgspec.Struct, frozen=True):
    """Everything a carrier needs to know to give a number."""

    ref: OrderRef
    sender: Party
    recipient: Party
    waybill_type: int
    goods_name: str | None = None


class Issued(msgspec.Struct, frozen=True):
    """The number; `routing` if the carrier has its own sorting codes, and `print_data` if only the
    carrier's own text can be printed."""

    number: str
    routing: RoutingInfo | None = None
    print_data: str | None = None


class Declined(msgspec.Struct, frozen=True):
    """The carrier says no; the reason is its own text, for the caller, or ours if there is none."""

    reason: str | Phrase

    def said(self, language: str) -> str:
        reason = self.reason
        return reason.said(language) if isinstance(reason, Phrase) else reason

    @property
    def clause(self) -> str | Phrase:
        """The reason without its full stop, for a place within a sentence."""
        en, zh = (self.said(each).rstrip(".。") for each in ("en", "zh"))
        # The carrier's own text stays as it is, also if it has braces.
        return en if en == zh else Phrase(en, zh)


class Cancelled(msgspec.Struct, frozen=True):
    """The carrier no longer expects a parcel with this number."""

    number: str


class Updated(msgspec.Struct, frozen=True):
    """The carrier expects the parcel for another receiver; the rest as for one that is issued."""

    routing: RoutingInfo | None = None
    print_data: str | None = None


class ConnectorError(SentenceError):
    """There is no usable answer; the text is one sentence for the log."""


class NotSentError(ConnectorError):
    """Nothing was done: no connection, too many failures just before, too many messages."""


class TurnedAwayError(NotSentError):
    """The carrier's gateway answered that it has not passed the message on. It is not silent: the
    breaker does not count this."""


class LinkRefusedError(NotSentError):
    """The carrier's gateway does not know the sender, or not by this secret: it would refuse every
    message. The breaker counts this, so that few calls hold credits for nothing."""


class OutcomeUnknownError(ConnectorError):
    """The message was sent, and no trustworthy answer came."""


class AnswerUnusableError(OutcomeUnknownError):
    """The carrier itself answered, and its answer does not say what was done. It is not silent: the
    breaker does not count this."""


class NoLookUpError(AnswerUnusableError):
    """The protocol has no message that asks what became of an order."""


class Connector(Protocol):
    """One carrier over its link. Every method may raise a `ConnectorError`."""

    async def issue(self, order: IssueOrder) -> Issued | Declined:
        """Asks for a number. Not idempotent: asking twice for one order yields two numbers."""

    async def look_up(self, order: OrderRef) -> Issued | None:
        """What was issued for an order and not cancelled; None if the carrier knows of nothing."""

    async def cancel(self, order: OrderRef, number: str) -> Cancelled | Declined:
        """Cancels a number; idempotent."""


@runtime_checkable
class UpdatingConnector(Protocol):
    """A connector whose protocol can also change the receiver of an issued waybill."""

    async def update(self, order: IssueOrder, number: str) -> Updated | Declined:
        """Sends the whole new receiver; idempotent."""
