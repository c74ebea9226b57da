"""The real side of the books' machine: the stages that touch money, over a real SQLite file.

It can crash. What a killed process leaves behind is what its files hold at that moment: they are
copied then, and the next life begins with the copies.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from sqlalchemy import bindparam, select

from tests.ledger import books_calls as told
from tests.ledger.books_calls import Crash, Outcome, Wanted
from tollway.contract.operation import Operation
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charges import Act, Acted, Charge, ShortageError
from tollway.ledger.directory import Directory
from tollway.ledger.holds import capture, release, reserve
from tollway.ledger.posting import KeptBefore
from tollway.ledger.settlement import Settler
from tollway.operations.catalogue import BY_NAME
from tollway.store.database import Database, Row, Transaction
from tollway.store.open import open_database
from tollway.store.query import Query
from tollway.store.schema import product
from tollway.store.sealing import Sealer
from tollway.store.settlement_tables import hold
from tollway.store.signing import Signer
from tollway.store.versions import Versions
from tollway.telemetry.metrics import Metrics
from tollway.toll.authenticate import Authenticate
from tollway.toll.call import KEY_HEADER, Call
from tollway.toll.permit import Permit
from tollway.toll.recall import Memory, Recall
from tollway.toll.settle import Settle

T = TypeVar("T")
Tamper = Callable[[Database], Database]
_METRICS = Metrics()
_KEYS = {1: bytes(range(32))}
_SEALER, _FINGERPRINTER = Sealer(_KEYS, 1), Signer(_KEYS, 1, "request fingerprint")
# Any table will do to see whether a deed was done.
_DO = Query(
    product.insert().values(
        product_id=bindparam("product_id"), title="", picture_url="", shop_name=""
    )
)
_HOLDS = Query(
    select(hold.c.id, hold.c.state, hold.c.request_id)
    .where(hold.c.account_id == bindparam("of_account"), hold.c.id.like(bindparam("ids")))
    .order_by(hold.c.id)
)


class CrashedError(Exception):
    """The process is gone; nobody hears anything from it any more."""


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
        self.change_mark = inner.change_mark

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
    """One life after the other over the same books."""

    def __init__(self, path: Path, tamper: Tamper) -> None:
        self._first_path = path
        self._tamper = tamper
        self._lives = 0
        self._open(path)

    def _open(self, path: Path) -> None:
        self._lives += 1
        self._path = path
        self._real = open_database(f"sqlite:///{path}", _METRICS)
        image = self._first_path.with_suffix(f".{self._lives}.db")
        self.database = Mortal(self._tamper(self._real), path, image)
        versions = Versions(self.database)
        directory = Directory(self.database, versions)
        self._authenticate = Authenticate(directory, versions)
        self._permit = Permit(directory)
        memory = Memory(self.database, _SEALER, _FINGERPRINTER)
        self._recall = Recall(memory, memory, self._permit.check_affordable)
        settler = Settler(self.database, _METRICS, 60, directory.remember_amount)
        self._settle = Settle(settler, settler)

    async def close(self) -> None:
        await self._real.close()
        for file in self._path.parent.glob(f"{self._path.name}*"):
            file.unlink()

    async def crash(self) -> None:
        """Ends this life, if it has not ended yet, and begins the next."""
        self.database.die()
        image = self._first_path.with_suffix(f".{self._lives}.db")
        await self.close()
        self._open(image)

    async def answer(self, calls: list[Wanted]) -> list[Outcome]:
        """Calls that come at the same moment, and so share their commits."""
        return await asyncio.gather(*map(self._walk, calls))

    async def _walk(self, wanted: Wanted) -> Outcome:
        call = _call(wanted, BY_NAME[wanted.operation])
        try:
            try:
                for stage in (self._authenticate, self._permit, self._recall, _perform):
                    waiting = stage(call)
                    if waiting is not None:
                        await waiting
                waiting = self._settle(call)
                if waiting is not None:
                    await waiting
            except KeptBefore as found:
                self._recall.repeat(call, found.kept)
        except Exception as error:
            return _outcome_of(error)
        return Outcome("answered", call.data.decode(), call.charged, call.replay_of)


def _call(wanted: Wanted, operation: Operation) -> Call:
    headers = {b"authorization": b"Bearer " + wanted.token.encode()}
    if wanted.key is not None:
        headers[KEY_HEADER] = wanted.key.encode()

    async def no_body() -> bytes:
        return b""

    at_s = wanted.at_ms / 1000
    call = Call(wanted.request_id, operation.method, operation.path, b"", headers, no_body, at_s)
    call.operation, call.operation_name, call.request = operation, operation.name, wanted.asked
    return call


def _outcome_of(error: Exception) -> Outcome:
    if isinstance(error, CrashedError):
        return told.UNHEARD
    if isinstance(error, ShortageError):
        return told.SHORT
    if isinstance(error, AsMeantError):
        return told.FAILED
    if isinstance(error, Refusal):
        return _REFUSALS[error.reason]
    raise error


_REFUSALS: Mapping[Reason, Outcome] = {
    Reason.CREDENTIAL_INVALID: told.NOT_LET_IN,
    Reason.CALLS_USED_UP: told.SHORT,
    Reason.CREDITS_USED_UP: told.SHORT,
    Reason.IDEMPOTENCY_KEY_REUSED: told.CONFLICT,
}


class AsMeantError(Exception):
    """A call failed because it was told to."""


def _perform(call: Call) -> None:
    what, number = call.request.what, call.request.number
    if what == told.BREAK:
        raise AsMeantError
    if what == told.DATA:
        call.data = call.request_id.encode()
    elif what in told.ERRANDS:
        call.act = _errand(what, number)
    else:
        call.act = partial(_deed, what)


async def _deed(what: str, transaction: Transaction, charge: Charge) -> Acted:
    if what != told.FREE:
        await transaction.execute(_DO, product_id=charge.request_id)
    if what == told.FAIL:
        raise AsMeantError
    replay_of = told.EARLIER if what == told.FREE else None
    return Acted(charge.request_id.encode(), what != told.FREE, replay_of=replay_of)


def _errand(what: str, number: int) -> Act:
    """Sets credits aside, asks somebody else, and then charges them or gives them back."""

    async def holds(transaction: Transaction, charge: Charge) -> list[Row]:
        ids = f"{number}.%"
        return list(await transaction.fetch_all(_HOLDS, of_account=charge.account_id, ids=ids))

    async def set_out(transaction: Transaction, charge: Charge) -> Acted:
        before = await holds(transaction, charge)
        last_id, state, request_id = before[-1] if before else (None, "released", None)
        if state == "captured":
            return Acted(last_id.encode(), is_paid=False, replay_of=request_id)
        if state == "released":
            await reserve(transaction, charge, f"{number}.{len(before):03d}", charge.at_ms + 60_000)
        return Acted(b"", is_paid=False, then=ask)

    async def ask() -> Act:
        if what == told.SILENT:
            raise AsMeantError
        return come_back

    async def come_back(transaction: Transaction, charge: Charge) -> Acted:
        hold_id, state, request_id = (await holds(transaction, charge))[-1]
        captured = None
        if state == "held" and what == told.TAKEN:
            made = await capture(transaction, charge.account_id, hold_id, charge.at_ms)
            state, captured = "captured", made.amount
        elif state == "held":
            await release(transaction, charge.account_id, hold_id, charge.at_ms)
            state = "released"
        if state == "released":
            return Acted(b"refused", is_paid=False)
        replay_of = None if request_id == charge.request_id else request_id
        return Acted(hold_id.encode(), is_paid=False, captured=captured, replay_of=replay_of)

    return set_out
