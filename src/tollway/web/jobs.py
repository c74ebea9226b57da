"""Work that a page starts and that takes longer than a page may: audits, imports.

It runs in this process, beside the calls. Its progress is in the database, so that any worker can
show it. A missing heartbeat shows that the process died.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from time import monotonic

import msgspec

from tollway.contract.language import Sentence
from tollway.intake.raw_records import IntakeError
from tollway.ledger import LedgerError
from tollway.store.database import Database, Reader, StoreError, Transaction
from tollway.store.last_runs import last_runs, note_run_in

JOB_PREFIX = "job "
_NOTED_EVERY_S = 1.0
_BEAT_EVERY_S = 30.0
_SILENT_S = 120

logger = logging.getLogger("tollway.web")

Progress = Callable[[int, int], Awaitable[None]]
Work = Callable[[Progress], Awaitable[None]]


class Job(msgspec.Struct, frozen=True):
    """The progress of a job; `problem` is why it ended early."""

    at_s: int
    done: int = 0
    total: int = 0
    is_running: bool = False
    problem: Sentence | None = None

    @property
    def percent(self) -> int:
        return min(100, self.done * 100 // self.total) if self.total else 0


class Jobs:
    """Starts jobs, one of each name at a time."""

    def __init__(self, database: Database, now_s: Callable[[], float]) -> None:
        self._database = database
        self._now_s = now_s
        # None until this process knows that no other one runs the job.
        self._running: dict[str, asyncio.Task[None] | None] = {}

    async def start(self, name: str, work: Work) -> bool:
        """Returns whether the job was started: not while another of this name runs."""
        if name in self._running:
            return False
        self._running[name] = None
        try:
            if not await self._database.write(partial(self._begin, name)):
                return False
            self._running[name] = asyncio.create_task(self._run(name, work))
        finally:
            if self._running[name] is None:
                del self._running[name]
        return True

    async def _begin(self, name: str, transaction: Transaction) -> bool:
        """False while another process runs it."""
        await transaction.lock_names([JOB_PREFIX + name])
        job = await find_job(transaction, name, self._now_s())
        if job is not None and job.is_running:
            return False
        await _note(transaction, name, Job(int(self._now_s()), is_running=True))
        return True

    async def _run(self, name: str, work: Work) -> None:
        done, total, noted_s = 0, 0, monotonic()
        problem: Sentence | None = None

        async def note() -> None:
            await self._note(name, Job(int(self._now_s()), done, total, is_running=True))

        async def progress(so_far: int, of: int) -> None:
            nonlocal done, total, noted_s
            done, total = so_far, of
            if monotonic() - noted_s >= _NOTED_EVERY_S:
                noted_s = monotonic()
                await note()

        ended = asyncio.Event()
        beating = asyncio.create_task(_beat(note, ended))
        try:
            await work(progress)
        except (IntakeError, LedgerError) as error:
            problem = error.sentence
        except asyncio.CancelledError:
            problem = Sentence("The gateway stopped meanwhile: start it again.")
        except Exception:
            logger.exception("the work %s failed", name)
            problem = Sentence("It failed: the log of the gateway says why.")
        finally:
            del self._running[name]
            ended.set()
            await beating
        try:
            await self._note(name, Job(int(self._now_s()), done, total, problem=problem))
        except StoreError as error:
            logger.error("the end of the work %s was not stored: %s", name, error)

    async def _note(self, name: str, job: Job) -> None:
        await self._database.write(lambda transaction: _note(transaction, name, job))


async def _note(transaction: Transaction, name: str, job: Job) -> None:
    result = msgspec.json.encode(job).decode()
    await note_run_in(
        transaction, JOB_PREFIX + name, job.at_s, is_good=not job.problem, result=result
    )


async def _beat(note: Callable[[], Awaitable[None]], ended: asyncio.Event) -> None:
    """The heartbeat of a job, also while one step takes long. An event stops it, because a
    cancelled write could still land after the end of the job."""
    while not ended.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), _BEAT_EVERY_S)
            return
        with suppress(StoreError):
            await note()


async def find_job(reader: Reader, name: str, now_s: float) -> Job | None:
    """The progress of a job; None if it never ran."""
    run = (await last_runs(reader)).get(JOB_PREFIX + name)
    if run is None:
        return None
    job = msgspec.json.decode(run.result, type=Job)
    # A heartbeat in the future is from a clock that was ahead.
    if job.is_running and abs(now_s - job.at_s) > _SILENT_S:
        problem = Sentence("Its process ended meanwhile: start it again.")
        return msgspec.structs.replace(job, is_running=False, problem=problem)
    return job
