"""The order of the stages, and the walk through them."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tollway.consent.links import Links
from tollway.consent.standing import Standings
from tollway.contract.reasons import Refusal
from tollway.contract.receipt import RECEIPTS_PATH
from tollway.ledger.charges import OverLimitError, ShortageError
from tollway.ledger.directory import Directory
from tollway.ledger.keeping import KeptAnswer
from tollway.ledger.posting import KeptBefore
from tollway.ledger.settlement import Settler
from tollway.ledger.uncharged import UnchargedCalls
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.handling import Handler
from tollway.settings import Settings
from tollway.store.database import Database
from tollway.store.versions import Versions
from tollway.telemetry.calls import CallRecorder
from tollway.telemetry.metrics import Metrics
from tollway.toll.authenticate import Authenticate
from tollway.toll.call import Answer, Call, Stage
from tollway.toll.consent import Consent
from tollway.toll.decode import Decode
from tollway.toll.envelope import Enveloper
from tollway.toll.perform import Perform
from tollway.toll.permit import Permit
from tollway.toll.recall import Memory, Recall
from tollway.toll.receipts import Notes, ReadReceipt, RouteReceipt
from tollway.toll.route import Route
from tollway.toll.settle import Settle
from tollway.toll.throttle import SlidingSecond, Throttle

logger = logging.getLogger("tollway.call")

# The way of every call. The envelope comes after the last of them, and after any refusal.
ORDER: tuple[type[Stage], ...] = (
    Route,
    Authenticate,
    Permit,
    Throttle,
    Decode,
    Consent,
    Recall,
    Perform,
    Settle,
)
# The way of asking after a receipt, which costs nothing.
RECEIPT_ORDER: tuple[type[Stage], ...] = (RouteReceipt, Authenticate, Throttle, ReadReceipt)


@dataclass(frozen=True)
class Side:
    """One of the two worlds that a call can be in: the real one, or the sandbox."""

    handlers: Mapping[str, Handler]
    standings: Standings
    settler: Settler
    memory: Memory


@dataclass(frozen=True)
class Parts:
    """What the stages work with."""

    settings: Settings
    metrics: Metrics
    database: Database
    versions: Versions
    directory: Directory
    links: Links
    live: Side
    sandbox: Side
    recorder: CallRecorder
    uncharged: UnchargedCalls


class _Way(NamedTuple):
    """Stages, and the envelope at their end."""

    stages: tuple[Stage, ...]
    enveloper: Enveloper


class Toll:
    """The stages, set up, in their order."""

    def __init__(self, parts: Parts) -> None:
        limit = parts.settings.rate_limit
        throttle = Throttle(SlidingSecond(), limit)
        self.authenticate = Authenticate(parts.directory, parts.versions)
        permit = Permit(parts.directory)
        live, sandbox = parts.live, parts.sandbox
        self._recall = Recall(live.memory, sandbox.memory, permit.check_affordable)
        self._settle = Settle(live.settler, sandbox.settler)
        stages: dict[type[Stage], Stage] = {
            Route: Route(OPERATIONS),
            Authenticate: self.authenticate,
            Permit: permit,
            Throttle: throttle,
            Decode: Decode(OPERATIONS),
            Consent: Consent(live.standings, sandbox.standings, parts.links),
            Recall: self._recall,
            Perform: Perform(live.handlers, sandbox.handlers),
            Settle: self._settle,
            RouteReceipt: RouteReceipt(),
            ReadReceipt: ReadReceipt(parts.database),
        }
        mapped = parts.settings.http_status == "mapped"
        notes = Notes(parts.uncharged, SlidingSecond(), parts.metrics, limit)
        self._to_operation = _Way(
            tuple(stages[stage] for stage in ORDER),
            Enveloper(throttle, parts.recorder, notes, mapped=mapped),
        )
        self._to_receipt = _Way(
            tuple(stages[stage] for stage in RECEIPT_ORDER),
            Enveloper(throttle, parts.recorder, _note_nothing, mapped=mapped),
        )

    async def walk(self, call: Call) -> Answer:
        is_receipt = call.path.startswith(RECEIPTS_PATH)
        stages, enveloper = self._to_receipt if is_receipt else self._to_operation
        try:
            for stage in stages:
                waiting = stage(call)
                if waiting is not None:
                    await waiting
        except KeptBefore as found:
            return await self._answer_again(call, found.kept)
        except (Refusal, ShortageError) as error:
            over_limit = None if is_receipt else await self._count_failed(call)
            return enveloper.failure(call, over_limit or error)
        except Exception as error:
            return enveloper.failure(call, error)
        return enveloper.success(call)

    async def _answer_again(self, call: Call, kept: KeptAnswer) -> Answer:
        enveloper = self._to_operation.enveloper
        try:
            # If counting fails, so does the call. The answer that was found may be on this server
            # alone, and gone with it: its own commit may have waited for the standby in vain. The
            # commit that counts this call comes after it, and confirms all that was before.
            waiting = self._settle.count(call)
            if waiting is not None:
                await waiting
            self._recall.repeat(call, kept)
        except Exception as error:
            return enveloper.failure(call, error)
        return enveloper.success(call)

    async def _count_failed(self, call: Call) -> OverLimitError | None:
        """Counts a call that ends in a refusal against the limit of all nodes; the error if there
        was no place for it."""
        try:
            waiting = self._settle.count(call)
            if waiting is not None:
                await waiting
        except OverLimitError as over_limit:
            return over_limit
        except Exception as error:
            # While the database cannot be asked, each node counts for itself.
            logger.warning("a call was not counted for all nodes: %s", error)
        return None


def _note_nothing(_call: Call, _code: int, _reason: str) -> None:
    """Asking after a receipt has no receipt itself."""
