"""The real side of the ledger's machine: the stages that touch money, over a real SQLite file.

It can crash. What a killed process leaves behind is what its files hold at that moment: they are
copied then, and the next life begins with the copies.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from tests.ledger import ledger_calls
from tests.ledger.ledger_calls import Crash, Outcome, Wanted
from tests.ledger.ledger_work import AsMeantError, perform
from tollway.consent.grant_cache import GrantCache
from tollway.contract.operation import Operation
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.caller_cache import CallerCache
from tollway.ledger.charge_transaction import AlreadyAnswered
from tollway.ledger.charges import ShortageError
from tollway.ledger.charging import ChargeBatcher
from tollway.operations.catalogue import BY_NAME
from tollway.pipeline.authenticate import Authenticate
from tollway.pipeline.bodies import NO_BODY
from tollway.pipeline.call import KEY_HEADER, AnswerStore, Call, Environment
from tollway.pipeline.permit import Permit
from tollway.pipeline.replay import Replay
from tollway.pipeline.settle import Settle
from tollway.store.cache_versions import Versions
from tollway.store.database import Database, Transaction
from tollway.store.keys import KeyedSigner
from tollway.store.open import open_database
from tollway.store.sealing import Sealer
from tollway.telemetry.metrics import Metrics

T = TypeVar("T")
Tamper = Callable[[Database], Database]
_METRICS = Metrics()
_KEYS = {1: bytes(range(32))}
_SEALER, _FINGERPRINTER = Sealer(_KEYS, 1), KeyedSigner(_KEYS, 1, "request fingerprint")


class CrashedError(Exception):
    """The process is gone; no caller gets an answer from it any more."""


class Mortal:
    """A database whose process dies at a chosen commit; the files of that moment are copied."""

    def __init__(self, inner: Database, path: Path, image: Path) -> None:
        self._inner = inner
        self._path = path
        self._image = image
        self._commits = 0
        self.crash: Crash | None = None
        self.is_dead = False
        self.fetch_one = inner.fetch_one
        self.fetch_all = inner.fetch_all
        self.fetch_long = inner.fetch_long
        self.is_shared = inner.is_shared
        self.change_mark, self.record_mark = inner.change_mark, inner.record_mark

    def plan(self, crash: Crash) -> None:
        self._commits, self.crash = 0, crash

    async def write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        if self.is_dead:
            raise CrashedError
        self._commits += 1
        crash = self.crash if self.crash and self.crash.at_commit == self._commits else None

        async def watched(transaction: Transaction) -> T:
            result = await work(transaction)
            if crash is not None and not crash.is_committed:
                self.die()
                raise CrashedError
            return result

        result = await self._inner.write(watched)
        if crash is not None:
            self.die()
            raise CrashedError
        return result

    def die(self) -> None:
        if not self.is_dead:
            self.is_dead = True
            for ending in ("", "-wal"):
                shutil.copyfile(f"{self._path}{ending}", f"{self._image}{ending}")


class BooksGateway:
    """Restarts over the same database."""

    def __init__(self, path: Path, tamper: Tamper) -> None:
        self._first_path = path
        self._tamper = tamper
        self._restarts = 0
        self._open(path)

    def _open(self, path: Path) -> None:
        self._restarts += 1
        self._path = path
        self._real = open_database(f"sqlite:///{path}", _METRICS)
        image = self._first_path.with_suffix(f".{self._restarts}.db")
        self.database = Mortal(self._tamper(self._real), path, image)
        versions = Versions(self.database)
        callers = CallerCache(self.database, versions)
        self._permit = Permit(callers, ZoneInfo("Asia/Shanghai"))
        answers = AnswerStore(self.database, _SEALER, _FINGERPRINTER)
        self._replay = Replay(self._permit.check_affordable)
        batcher = ChargeBatcher(self.database, _METRICS, 60, callers.remember_amount)
        self._settle = Settle(ZoneInfo("Asia/Shanghai"))
        environment = Environment({}, GrantCache(self.database, versions), batcher, answers)
        self._authenticate = Authenticate(callers, versions, environment, environment, ())

    async def close(self) -> None:
        await self._real.close()
        for file in self._path.parent.glob(f"{self._path.name}*"):
            file.unlink()

    async def crash(self) -> None:
        """Ends this life, if it has not ended yet, and begins the next."""
        self.database.die()
        image = self._first_path.with_suffix(f".{self._restarts}.db")
        await self.close()
        self._open(image)

    async def answer(self, calls: list[Wanted]) -> list[Outcome]:
        """Calls that come at the same moment, and so share their commits."""
        return await asyncio.gather(*map(self._pass_through, calls))

    async def _pass_through(self, wanted: Wanted) -> Outcome:
        call = _call(wanted, BY_NAME[wanted.operation])
        try:
            try:
                for stage in (self._authenticate, self._permit, self._replay, perform):
                    waiting = stage(call)
                    if isinstance(waiting, Exception):
                        raise waiting
                    if waiting is not None:
                        await waiting
                charge = self._settle(call)
                if charge is not None:
                    await charge
                    waiting = charge.resume()
                    if waiting is not None:
                        await waiting
            except AlreadyAnswered as found:
                self._replay.check_same(call, found.kept)
                self._replay.repeat(call, found.kept, self._replay.opened(call, found.kept))
        except Exception as error:
            return _outcome_of(error)
        return Outcome("answered", call.data.decode(), call.charged, call.replay_of)


def _call(wanted: Wanted, operation: Operation) -> Call:
    headers = {b"authorization": b"Bearer " + wanted.token.encode()}
    if wanted.key is not None:
        headers[KEY_HEADER] = wanted.key.encode()

    at_s = wanted.at_ms / 1000
    call = Call(wanted.request_id, operation.method, operation.path, b"", headers, NO_BODY, at_s)
    call.operation, call.operation_name, call.request = operation, operation.name, wanted.asked
    return call


def _outcome_of(error: Exception) -> Outcome:
    # A call with a hold would answer that it is held, but no process is there to send that.
    if isinstance(error, CrashedError) or isinstance(error.__context__, CrashedError):
        return ledger_calls.UNHEARD
    if isinstance(error, ShortageError):
        return ledger_calls.SHORT
    if isinstance(error, AsMeantError):
        return ledger_calls.FAILED
    if isinstance(error, Refusal):
        return _REFUSALS[error.reason]
    raise error


_REFUSALS: Mapping[Reason, Outcome] = {
    Reason.CARRIER_SILENT: ledger_calls.FAILED,
    Reason.CREDENTIAL_INVALID: ledger_calls.NOT_LET_IN,
    Reason.CALLS_USED_UP: ledger_calls.SHORT,
    Reason.CREDITS_USED_UP: ledger_calls.SHORT,
    Reason.IDEMPOTENCY_KEY_REUSED: ledger_calls.CONFLICT,
}
