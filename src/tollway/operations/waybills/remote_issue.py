"""Having a remote carrier issue a waybill: hold, ask, then capture or release.

The gateway asks the carrier once. Without an answer the waybill stays pending and its price held,
until reconciliation has looked it up at the carrier.
"""

import asyncio
import logging
import time
from functools import partial

from msgspec.structs import replace

from tollway.carriers import CarrierError
from tollway.carriers.carrier_links import CarrierLink, OpenedCarrierLink
from tollway.carriers.carriers import Carrier
from tollway.carriers.connectors.connector import (
    Connector,
    ConnectorError,
    Declined,
    Issued,
    NotSentError,
    OrderRef,
    OutcomeUnknownError,
)
from tollway.carriers.connectors.remote_carriers import Remotes
from tollway.carriers.pending_waybills import begin, order_of
from tollway.carriers.reconciling import Reconciler
from tollway.carriers.vault import Vault
from tollway.carriers.waybills import StoredWaybill, find_in_force
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charges import Act, ActResult, Charge, ClosingAct
from tollway.ledger.runtime import Runtime, uptime_s
from tollway.operations.waybills.waybill_maker import issued, refused
from tollway.store.clock import common_ms
from tollway.store.database import Transaction

logger = logging.getLogger("tollway.carriers")

_NOT_SENT = "The carrier could not be reached."
_DECLINED = "The carrier refused."
_POLL_S = 0.1
# With less time left before the deadline, a look-up is not worth it.
_QUESTION_MIN_S = 0.02

_Answer = Issued | Declined | ConnectorError


class RemoteIssuer:
    """The requests of this process to remote carriers that have no answer yet."""

    def __init__(
        self, remotes: Remotes, reconciler: Reconciler, vault: Vault, runtime: Runtime
    ) -> None:
        self._remotes = remotes
        self._reconciler = reconciler
        self._vault = vault
        self._runtime = runtime
        self._under_way: dict[str, asyncio.Future[_Answer]] = {}

    async def begin(
        self,
        transaction: Transaction,
        stored: StoredWaybill,
        carrier: Carrier,
        opened: OpenedCarrierLink,
        charge: Charge,
        language: str,
    ) -> ActResult:
        """Holds the price; the carrier is asked once that is committed."""
        if self._remotes.is_refusing(carrier.wp_code):
            # Checked first, so that nothing is held only to be released.
            raise Refusal(Reason.CARRIER_UNREACHABLE)
        try:
            connector = self._remotes.connector(carrier, opened)
        except NotSentError:
            raise Refusal(Reason.CARRIER_UNREACHABLE) from None
        began_s = uptime_s()
        now_ms = await common_ms(transaction, self._runtime.at_ms())
        # From now, not from the arrival of the call: its body may have been slow. Rounded up, so
        # that a waybill never counts as older than it is.
        dated = replace(stored.waybill, asked_at_s=now_ms // 1000 + 1)
        stored = stored._replace(waybill=dated)
        deadline_at_s = dated.asked_at_s + opened.link.settle_after_s
        await begin(transaction, stored, charge, deadline_at_s * 1000)
        ask = partial(self._ask, stored, connector, opened.link, began_s, language)
        return ActResult(b"", is_paid=False, then=ask, is_held=True)

    async def _ask(
        self,
        stored: StoredWaybill,
        connector: Connector,
        link: CarrierLink,
        began_s: float,
        language: str,
    ) -> Act:
        object_id = stored.waybill.object_id
        under_way: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._under_way[object_id] = under_way
        try:
            answer = await self._answer(stored, connector, link, began_s)
            under_way.set_result(answer)
        finally:
            del self._under_way[object_id]
            # Without a result, calls that wait for it look the waybill up themselves.
            under_way.cancel()
        if isinstance(answer, OutcomeUnknownError):
            raise _silent(stored)
        close = partial(self._close, stored, answer, language)
        late = partial(self._close, stored, answer, language, is_late=True)
        return ClosingAct(close, late, _outcome(stored, answer))

    async def _answer(
        self, stored: StoredWaybill, connector: Connector, link: CarrierLink, began_s: float
    ) -> _Answer:
        deadline_s = link.deadline_ms / 1000
        # By a clock that also runs while this machine sleeps, as those of other nodes do.
        if uptime_s() - began_s > link.settle_after_s - deadline_s:
            # After such a delay, reconciliation could give it up while the carrier still works.
            return NotSentError("The message is too old to be sent.")
        order = order_of(stored, self._vault)
        ends_at_s = time.monotonic() + deadline_s
        try:
            return await connector.issue(order)
        except OutcomeUnknownError as error:
            # A connection that broke early leaves time for a look-up.
            found = await _look_up(connector, order.ref, ends_at_s - time.monotonic())
            return found or error
        except ConnectorError as error:
            return error

    async def _close(
        self,
        stored: StoredWaybill,
        answer: _Answer,
        language: str,
        transaction: Transaction,
        charge: Charge,
        *,
        is_late: bool = False,
    ) -> ActResult:
        end = partial(self._reconciler.end, transaction, stored)
        if is_late:
            # Also if the commit that failed before was made after all.
            settled = answer if isinstance(answer, Issued) else None
            await self._reconciler.notify(transaction, stored, settled)
        if isinstance(answer, Issued):
            await end(answer, "")
            return await self._close_issued(stored, answer, transaction, charge)
        if isinstance(answer, Declined):
            # Not the carrier's words, which may quote the receiver: only the caller gets those.
            await end(None, _DECLINED)
            return refused(stored.waybill.order_sn, answer.said(language))
        await end(None, _NOT_SENT)
        return ActResult(b"", is_paid=False, then=_unreachable)

    async def _close_issued(
        self,
        stored: StoredWaybill,
        answer: Issued,
        transaction: Transaction,
        charge: Charge,
    ) -> ActResult:
        # Read back, because reconciliation may have been faster, which is fine.
        found = await find_in_force(transaction, stored.waybill.key)
        if found is None or (found.waybill.object_id, found.waybill.number) != (
            stored.waybill.object_id,
            answer.number,
        ):
            logger.error(
                "carrier %s gave %s for waybill %s, which was given up before: cancel it there",
                stored.waybill.wp_code,
                answer.number,
                stored.waybill.object_id,
            )
            raise _silent(stored)
        return ActResult(
            issued(found.waybill, found.print_data(self._vault)),
            is_paid=False,
            captured=charge.amount,
        )

    async def join(self, stored: StoredWaybill, again: Act, language: str) -> Act:
        """Waits for a waybill that another request has begun; then `again` looks for it again."""
        under_way = self._under_way.get(stored.waybill.object_id)
        if under_way is not None:
            await asyncio.wait([under_way])
            if not under_way.cancelled():
                answer = under_way.result()
                if isinstance(answer, Declined):
                    why = answer.said(language)
                    return partial(_say_refused, stored.waybill.order_sn, why)
                if isinstance(answer, NotSentError):
                    return await _unreachable()
                if isinstance(answer, OutcomeUnknownError):
                    raise _silent(stored)
        if await self._is_settled_soon(stored):
            return again
        try:
            finding = await self._reconciler.settle(stored)
        except CarrierError as error:
            logger.error("waybill %s could not be settled: %s", stored.waybill.object_id, error)
            raise _silent(stored) from None
        if finding.is_waiting:
            raise _silent(stored)
        return again

    async def _is_settled_soon(self, stored: StoredWaybill) -> bool:
        """Whether the call that asked, here or on another node, commits the answer in time."""
        age_s = await self._reconciler.age_s(stored)
        deadline_s = await self._reconciler.deadline_s(stored)
        # Bounded, whatever the clocks say; a new waybill may be dated a second ahead.
        ends_at_s = time.monotonic() + min(deadline_s - age_s, deadline_s + 1)
        while not await self._reconciler.is_settled(stored):
            if time.monotonic() >= ends_at_s:
                return False
            await asyncio.sleep(_POLL_S)
        return True


def _outcome(stored: StoredWaybill, answer: _Answer) -> str:
    """For the operator, if it cannot be stored. Not the carrier's words, as they are not stored."""
    wp_code, object_id = stored.waybill.wp_code, stored.waybill.object_id
    done, decision = f"issued nothing for waybill {object_id}", "--not-issued"
    if isinstance(answer, Issued):
        done, decision = (
            f"gave {answer.number} for waybill {object_id}",
            f"--number {answer.number}",
        )
    command = f"tollway reconcile --decide {object_id} {decision}"
    return f"carrier {wp_code} {done} (if that stays pending, `{command}` settles it)"


async def _look_up(connector: Connector, ref: OrderRef, left_s: float) -> Issued | None:
    if left_s < _QUESTION_MIN_S:
        return None
    try:
        async with asyncio.timeout(left_s):
            return await connector.look_up(ref)
    except (ConnectorError, TimeoutError):
        return None


async def _say_refused(order_sn: str, why: str, _: Transaction, __: Charge) -> ActResult:
    return refused(order_sn, why)


async def _unreachable() -> Act:
    raise Refusal(Reason.CARRIER_UNREACHABLE)


def _silent(stored: StoredWaybill) -> Refusal:
    return Refusal(Reason.CARRIER_SILENT, cost=stored.waybill.price)
