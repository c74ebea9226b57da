"""Settles pending waybills by asking the carrier what became of them, and never by guessing.

A waybill that the carrier knows is issued and charged. One that it does not know is given up, but
only when the message that asked for it is too old to arrive any more. Without an answer a waybill
stays pending; past its deadline it is reported as overdue. Waybills that a caller may still wait
for are left alone: only the direct answer has the carrier's sorting codes.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from tollway.carriers import CarrierError
from tollway.carriers.carrier_links import CarrierLink, find_link
from tollway.carriers.carriers import find_carrier, known_carrier
from tollway.carriers.connectors.connector import ConnectorError, Declined, Issued, NoLookUpError
from tollway.carriers.connectors.remote_carriers import Remotes
from tollway.carriers.number_formats import number_problem
from tollway.carriers.pending_waybills import (
    Position,
    carriers_pending,
    date_back,
    end_issued,
    end_refused,
    is_pending,
    list_pending,
    pending_of_order,
    ref_of,
)
from tollway.carriers.vault import Vault
from tollway.carriers.waybills import StoredWaybill, Waybill, refuse_several
from tollway.contract.language import Phrase
from tollway.ledger.holds import find_hold
from tollway.ledger.runtime import Runtime, cautious_clock, uptime_s
from tollway.ledger.trail import record_act
from tollway.store.clock import common_ms, earlier_ms
from tollway.store.database import (
    Database,
    Reader,
    StoreBusyError,
    StoreUnavailableError,
    Transaction,
)
from tollway.store.sealing import Sealer
from tollway.webhooks.events import Event, is_recorded, record_event

logger = logging.getLogger("tollway.carriers")

_GIVEN_UP = "The carrier did not know of it."
_DECIDED = "The operator decided that it was not issued."
_AT_ONCE_MAX = 1000
_ROUND_S = 30
# A waybill is dated a second ahead, and clocks are set back by less than another one all the time.
_AHEAD_S = 2


class Outcome(StrEnum):
    """What became of a pending waybill."""

    ISSUED = "issued"
    GIVEN_UP = "given up"
    # The carrier does not know it, which does not count before `settle_after_s`.
    TOO_EARLY = "too early to tell"
    # The answer to the message itself may still come in time.
    BEING_ASKED = "still being asked"
    NO_ANSWER = "no answer"
    # The protocol cannot ask; `tollway reconcile --decide` settles it.
    UNASKABLE = "carrier cannot be asked"
    NOT_CONNECTED = "carrier not connected"
    # Another process was faster.
    SETTLED = "settled elsewhere"
    FAILED = "failed, see the log"


class Finding(msgspec.Struct, frozen=True):
    """One pending waybill and what was found out about it."""

    waybill: Waybill
    outcome: Outcome
    number: str | None
    age_s: int
    is_overdue: bool

    @property
    def is_waiting(self) -> bool:
        return self.outcome not in (Outcome.ISSUED, Outcome.GIVEN_UP, Outcome.SETTLED)


class Reconciler:
    """Asks carriers about what is pending in one database."""

    def __init__(
        self, database: Database, remotes: Remotes, vault: Vault, runtime: Runtime
    ) -> None:
        self._database = database
        self._remotes = remotes
        self._vault = vault
        self._runtime = runtime
        # By wp_code; a round may end before it has asked for all waybills.
        self._last_asked: dict[str, Position] = {}
        # Since when this process has seen waybills that are dated later than now, by object id.
        self._seen_ahead_s: dict[str, float] = {}

    async def settle_all(self) -> Sequence[Finding]:
        """Settles all pending waybills that it can, except those that a caller may wait for."""
        carriers = await carriers_pending(self._database)
        # Concurrently, so that a carrier that does not answer delays only its own waybills.
        found = await asyncio.gather(*map(self._settle_of, carriers), return_exceptions=True)
        findings = []
        for of_carrier in found:
            if isinstance(of_carrier, BaseException):
                # Raised only after the others have ended too, so that none goes on unseen.
                raise of_carrier
            findings += of_carrier
        return findings

    async def _settle_of(self, wp_code: str) -> list[Finding]:
        """Settles one carrier's waybills for at most one round's time. The next round goes on after
        the last of them, so that waybills without an answer do not starve the others."""
        ends_at_s = time.monotonic() + _ROUND_S
        findings = []
        last = self._last_asked.get(wp_code)
        for stored in await list_pending(self._database, wp_code, last, _AT_ONCE_MAX):
            findings.append(await self._settle_safely(stored))
            self._last_asked[wp_code] = Position.of(stored.waybill)
            if time.monotonic() > ends_at_s:
                break
        return findings

    async def _settle_safely(self, stored: StoredWaybill) -> Finding:
        """If one cannot be settled (a number given twice, a lost key), the rest must go on."""
        age_s = 0
        try:
            stored = await self._dated(stored)
            age_s = await self.age_s(stored)
            if await self._is_being_asked(stored):
                return _finding(stored, Outcome.BEING_ASKED, age_s, age_s + 1)
            return await self._settle(stored, age_s)
        except (StoreBusyError, StoreUnavailableError):
            raise
        except Exception:
            logger.exception("waybill %s could not be settled", stored.waybill.object_id)
            return _finding(stored, Outcome.FAILED, age_s, 0)

    async def settle(self, stored: StoredWaybill) -> Finding:
        """Settles one pending waybill, if its carrier answers."""
        # Its age when the carrier was asked, not when the answer came.
        return await self._settle(stored, await self.age_s(stored))

    async def _settle(self, stored: StoredWaybill, age_s: int) -> Finding:
        pending = stored.waybill
        carrier = await find_carrier(self._database, pending.wp_code)
        opened = await find_link(self._database, self._vault.sealer, pending.wp_code)
        if carrier is None or opened is None:
            return _finding(stored, Outcome.NOT_CONNECTED, age_s, 0)
        after_s = await self._after_s(pending, opened.link)
        try:
            connector = self._remotes.connector(carrier, opened, is_counted=False)
            issued = await connector.look_up(ref_of(pending))
        except NoLookUpError:
            return _finding(stored, Outcome.UNASKABLE, age_s, after_s)
        except ConnectorError:
            return _finding(stored, Outcome.NO_ANSWER, age_s, after_s)
        if issued is not None:
            outcome = await self._settle_as(stored, issued)
            return _finding(stored, outcome, age_s, after_s, issued.number)
        is_early = age_s < after_s
        outcome = Outcome.TOO_EARLY if is_early else await self._settle_as(stored, None)
        return _finding(stored, outcome, age_s, after_s)

    async def decide(
        self, order_sn: str, wp_code: str | None, number: str | None, runtime: Runtime
    ) -> Finding:
        """Settles a waybill as the operator found out: with its number, or as not issued."""
        stored = await self.decidable(order_sn, wp_code, number)
        pending, age_s = stored.waybill, await self.age_s(stored)

        async def work(transaction: Transaction) -> bool:
            issued = None if number is None else Issued(number)
            is_done = await self._end_late(transaction, stored, issued, _DECIDED)
            if is_done:
                subject, after = f"account {pending.account_id}", {"number": number}
                await record_act(
                    transaction, runtime, "waybill decide", subject, before=pending, after=after
                )
            return is_done

        if not await self._database.write(work):
            return _finding(stored, Outcome.SETTLED, age_s, 0)
        outcome = Outcome.GIVEN_UP if number is None else Outcome.ISSUED
        return _finding(stored, outcome, age_s, 0, number)

    async def decidable(
        self, order_sn: str, wp_code: str | None, number: str | None
    ) -> StoredWaybill:
        """The waybill that `decide` would settle; refuses what it would refuse."""
        stored = await self._undecided(order_sn, wp_code)
        pending, age_s = stored.waybill, await self.age_s(stored)
        carrier = await known_carrier(self._database, pending.wp_code)
        opened = await find_link(self._database, self._vault.sealer, pending.wp_code)
        after_s = 0 if opened is None else await self._after_s(pending, opened.link)
        if await self._is_being_asked(stored) or age_s < after_s:
            raise CarrierError(
                "Order {order_sn} was asked for {age_s:,} s ago: until {after_s:,} s its message "
                "may still arrive. Try again then.",
                order_sn=order_sn,
                age_s=age_s,
                after_s=after_s,
            )
        problem = None if number is None else number_problem(carrier.number_format, number)
        if problem is not None:
            raise CarrierError(
                "{number} is no number of carrier {wp_code}: {problem}.",
                number=number,
                wp_code=pending.wp_code,
                problem=problem,
            )
        return stored

    async def _undecided(self, order_sn: str, wp_code: str | None) -> StoredWaybill:
        found = [
            stored
            for stored in await pending_of_order(self._database, order_sn)
            if wp_code in (None, stored.waybill.wp_code)
        ]
        if not found:
            raise CarrierError(
                "No waybill of order {order_sn} waits: run `tollway reconcile`.", order_sn=order_sn
            )
        refuse_several(order_sn, [stored.waybill for stored in found])
        return found[0]

    async def _settle_as(self, stored: StoredWaybill, issued: Issued | None) -> Outcome:
        """Issues a waybill as the carrier says, or gives it up because the carrier does not know
        it."""
        if not await self._database.write(lambda tx: self._end_late(tx, stored, issued, _GIVEN_UP)):
            return Outcome.SETTLED
        return Outcome.GIVEN_UP if issued is None else Outcome.ISSUED

    async def _end_late(
        self, transaction: Transaction, stored: StoredWaybill, issued: Issued | None, why_not: str
    ) -> bool:
        """The same as `end`, once the call has ended without the answer."""
        is_done = await self.end(transaction, stored, issued, why_not)
        if is_done:
            await self.notify(transaction, stored, issued)
        return is_done

    async def end(
        self, transaction: Transaction, stored: StoredWaybill, issued: Issued | None, why_not: str
    ) -> bool:
        """Ends the wait for a carrier; False if another process was faster."""
        at_ms = await common_ms(transaction, self._runtime.at_ms())
        if issued is None:
            return await end_refused(transaction, stored, why_not, at_ms)
        return await end_issued(transaction, stored, issued, self._vault, at_ms)

    async def notify(
        self, transaction: Transaction, stored: StoredWaybill, issued: Issued | None
    ) -> None:
        """Notifies the caller of how the wait for a carrier ended, once."""
        settled = stored.waybill
        event_id = f"evt_{settled.object_id}"
        if await is_recorded(transaction, settled.account_id, event_id):
            return
        data = {
            "object_id": settled.object_id,
            "order_sn": settled.order_sn,
            "wp_code": settled.wp_code,
            "outcome": "given_up" if issued is None else "issued",
            "number": None if issued is None else issued.number,
        }
        subject = f"waybill:{settled.object_id}"
        event = Event(settled.account_id, "waybill.settled", subject, data, event_id)
        await record_event(transaction, self._runtime, event)

    async def age_s(self, stored: StoredWaybill) -> int:
        """How long ago a waybill was asked for, at least: a lower bound, because a message from any
        node may still arrive."""
        now_ms = await earlier_ms(self._database, self._own_ms())
        return now_ms // 1000 - stored.waybill.asked_at_s

    def _own_ms(self) -> int:
        """On an embedded database, which has no other clock, this machine's may have jumped ahead:
        then it would make old what was asked for a moment ago."""
        now_ms = self._runtime.at_ms()
        return now_ms if self._database.is_shared else min(now_ms, cautious_clock().at_ms())

    async def _dated(self, stored: StoredWaybill) -> StoredWaybill:
        """A waybill that was asked for while a clock was ahead would wait until that time comes.

        So it is dated back, but not before its message can no longer arrive. The clock may as well
        have been right then, and be behind now; so only the time counts for which this process has
        seen it, by a clock that cannot be set.
        """
        asked = stored.waybill
        now_ms = await common_ms(self._database, self._runtime.at_ms())
        if asked.asked_at_s <= now_ms // 1000 + _AHEAD_S:
            self._seen_ahead_s.pop(asked.object_id, None)
            return stored
        seen_s = uptime_s() - self._seen_ahead_s.setdefault(asked.object_id, uptime_s())
        opened = await find_link(self._database, self._vault.sealer, asked.wp_code)
        if opened is None or seen_s < opened.link.settle_after_s:
            return stored
        asked_at_s = int(now_ms / 1000 - seen_s)
        logger.warning(
            "waybill %s was asked for while the clock was ahead: it is dated back by %d s",
            asked.object_id,
            asked.asked_at_s - asked_at_s,
        )
        return await self._database.write(lambda tx: date_back(tx, stored, asked_at_s, now_ms))

    async def _after_s(self, pending: Waybill, link: CarrierLink) -> int:
        """How old a waybill must be to be given up. The link may have been given a shorter time
        since: its message may arrive for as long as the link said then, as its hold shows."""
        assert pending.hold_id is not None
        held = await find_hold(self._database, pending.account_id, pending.hold_id)
        then_s = 0 if held is None else held.deadline_at_ms // 1000 - pending.asked_at_s
        return max(link.settle_after_s, then_s)

    async def deadline_s(self, stored: StoredWaybill) -> float:
        """How long a message to a waybill's carrier may take."""
        opened = await find_link(self._database, self._vault.sealer, stored.waybill.wp_code)
        return 0.0 if opened is None else opened.link.deadline_ms / 1000

    async def _is_being_asked(self, stored: StoredWaybill) -> bool:
        now_ms = await common_ms(self._database, self._own_ms())
        # A waybill may be dated a second ahead; if it is more, a clock was set back since.
        asked_s_ago = now_ms // 1000 - stored.waybill.asked_at_s
        return -1 <= asked_s_ago < await self.deadline_s(stored)

    async def is_settled(self, stored: StoredWaybill) -> bool:
        return not await is_pending(self._database, stored.waybill)


def _finding(
    stored: StoredWaybill, outcome: Outcome, age_s: int, after_s: int, number: str | None = None
) -> Finding:
    finding = Finding(stored.waybill, outcome, number, age_s, is_overdue=False)
    is_overdue = finding.is_waiting and age_s >= after_s
    return msgspec.structs.replace(finding, is_overdue=is_overdue)


class CancelDeclinedError(CarrierError):
    """The carrier was asked to cancel a waybill, and declined."""

    @property
    def why(self) -> str | Phrase:
        """In the carrier's own words, or ours if it gave none."""
        reason = self.sentence.values["why"]
        assert isinstance(reason, str | Phrase)
        return Declined(reason).clause


async def cancel_at_carrier(reader: Reader, remotes: Remotes, sealer: Sealer, of: Waybill) -> None:
    """Has a remote carrier cancel its waybill; carriers do not know waybills from a pool.

    Cancelling is idempotent, so if the rest fails after this, all of it can be repeated.
    """
    if of.hold_id is None or of.number is None:
        return
    carrier = await known_carrier(reader, of.wp_code)
    opened = await find_link(reader, sealer, of.wp_code)
    if opened is None:
        raise CarrierError(
            "Waybill {number} was issued by carrier {wp_code} itself, which is no longer "
            "connected: connect it again to cancel there.",
            number=of.number,
            wp_code=of.wp_code,
        )
    try:
        answer = await remotes.connector(carrier, opened).cancel(ref_of(of), of.number)
    except ConnectorError as error:
        raise CarrierError(
            "Waybill {number} is not cancelled: {why} Try again.",
            number=of.number,
            why=error.sentence,
        ) from None
    if isinstance(answer, Declined):
        raise CancelDeclinedError(
            "Carrier {wp_code} does not cancel {number}: {why}",
            wp_code=of.wp_code,
            number=of.number,
            why=answer.reason,
        )
