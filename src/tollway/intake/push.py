"""`POST /push/KIND`: from an HTTP request to durably stored records and their acknowledgement, with
metrics of every push and a log line for each that was not stored whole."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, perf_counter, time
from typing import NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tollway.intake.loading import IsOwn, Loader, RecordKind, store_records
from tollway.intake.push_body import Good, MalformedError, Pushed, Rejected, read_push
from tollway.intake.record_problems import NotOwnError
from tollway.intake.rejects import (
    KEPT_MAX,
    KEPT_MAX_MIB,
    RejectsFullError,
    keep_rejects,
    sealed_reject,
)
from tollway.intake.sources import KnownSource, find_source
from tollway.settings import Settings
from tollway.store.concurrency import BoundedSlots, TurnSlots
from tollway.store.database import Database, StoreError
from tollway.store.last_runs import PUSH_PREFIX, note_run
from tollway.store.sealing import Sealer
from tollway.telemetry.metrics import Metrics
from tollway.telemetry.requests import CONTEXT, RequestContext, RequestLog
from tollway.webhooks.signature import SignatureError, read_claim, signing_key

# Records per commit: calls that are charged meanwhile wait for one such commit at most.
_CHUNK_RECORDS = 1000
# One push is stored at a time; the queue is fair between sources.
_STORED_AT_ONCE = 1
# Until its signature is verified, a push may come from an anonymous client.
_LOOKED_UP_AT_ONCE = 1
_PATIENCE_S = 20.0
# A signature can be verified only when the whole body has arrived. So only a few large bodies are
# in memory at once, and slow or unsigned ones never delay small pushes.
_SMALL_BYTES = 65_536
_LARGE_AT_ONCE = 4
# While other addresses wait for a slot, a body must come at least this part as fast as the largest
# has to: a few addresses that send nothing would keep the slots from all others.
_PACE_PART = 4
_NOTED_EVERY_S = 600.0
_LATER = {"Retry-After": "5"}
# The same text for every cause, so that guessing reveals nothing; it names all that can be wrong.
_NOT_SIGNED = (
    "The push is not signed by a known source just now: check webhook-source, the secret, that "
    "webhook-id, webhook-timestamp and the body are signed as they are sent, and your clock."
)
_FULL = (
    f"{KEPT_MAX:,} rejected records of this source, or {KEPT_MAX_MIB} MiB of them, wait for the "
    "gateway's operator, so the wrong ones of this push are not kept; the others are stored. "
    "Correct them, or send the push again later."
)
_MUCH_LATER = {"Retry-After": "600"}
# The kind in metrics and logs for a push to an unknown path: never the path itself, which could be
# anything.
_UNKNOWN = "unknown"
# What the metrics call each status.
_OUTCOMES = {
    200: "stored",
    400: "malformed",
    401: "unsigned",
    404: "unknown_path",
    408: "timed_out",
    413: "too_large",
    500: "failed",
    503: "store_unavailable",
    507: "rejects_full",
}

# Those that are failures of the gateway itself.
_OF_GATEWAY = ("failed", "store_unavailable")

logger = logging.getLogger("tollway.push")


@dataclass
class _PushFacts:
    """The source of a push once its signature was checked, whether the gateway itself failed before
    that, and how many records were stored, unchanged and rejected."""

    source: str | None = None
    has_failed: bool = False
    records: dict[str, int] = field(default_factory=dict)


class _Signed(NamedTuple):
    """Whose push it is: the source, the key and the time of its signature, and what its own is."""

    source: str
    key: bytes
    at_s: int
    is_own: IsOwn


class PushLimits:
    """How many pushes of all kinds may be at each step at once."""

    def __init__(self) -> None:
        self.large = TurnSlots(_LARGE_AT_ONCE, "too many large pushes at once")
        self.look_up = BoundedSlots(_LOOKED_UP_AT_ONCE, "too many pushes at once")
        self.store = BoundedSlots(_STORED_AT_ONCE, "other pushes are being stored")
        # When a push of each source is noted again, by a clock that cannot be set.
        self.note_again_s: dict[str, float] = {}


@dataclass(frozen=True)
class Pushes:
    """Takes pushes of one kind into one database."""

    kind: RecordKind
    loader: Loader
    database: Database
    sealer: Sealer
    settings: Settings
    limits: PushLimits

    async def __call__(self, request: Request, facts: _PushFacts) -> Response:
        try:
            source = request.headers.get("webhook-source") or request.query_params.get("source", "")
            claimed = read_claim(
                request.headers.get("webhook-id", ""),
                request.headers.get("webhook-timestamp", ""),
                request.headers.get("webhook-signature", ""),
                time(),
            )
            # A push that is repeated or late counts as of its signature; and a sender gains nothing
            # by a clock that is ahead.
            signed_s = min(int(claimed.timestamp), int(time()))
            # An unknown source is refused no sooner than a known one, so that none can be guessed.
            known = await self._find(request, source, facts)
            async with self._slot_for(request):
                body = await self._body(request)
                # Not on the event loop: a large push takes as long as hundreds of calls.
                key = await asyncio.to_thread(signing_key, claimed, known.keys, body)
                facts.source = source
                # Once more: the sender may have held the body back until its secret was replaced.
                known = await find_source(self.database, self.sealer, source)
                if key not in known.keys:
                    raise SignatureError
                check = partial(known.speaks_for.check, self.kind.spoken_for)
                pushed = await asyncio.to_thread(read_push, self.loader, body, signed_s, check)
                # Its records are in memory now; they may have to wait.
                del body
            is_own = partial(known.speaks_for.has, self.kind.spoken_for[0])
            signed = _Signed(source, key, signed_s, is_own)
            read = len(pushed.good) + len(pushed.rejected)
            async with self.limits.store.taken(_PATIENCE_S, by=source):
                stored = await self._store(signed, pushed)
                await self._keep(signed, pushed.rejected)
        except SignatureError:
            return _error(401, _NOT_SIGNED)
        except MalformedError as error:
            return _error(400, str(error))
        except _TooLargeError:
            return _error(413, f"The push is over {self.settings.push_max_bytes} bytes.")
        except (TimeoutError, ClientDisconnect):
            return _error(408, "The push did not arrive whole in time.")
        except (RejectsFullError, StoreError) as error:
            return _not_stored(error)
        await self._note(source)
        rejected = len(pushed.rejected)
        unchanged = read - stored - rejected
        facts.records = {"stored": stored, "unchanged": unchanged, "rejected": rejected}
        problems = {"problems": pushed.problems} if pushed.problems else {}
        return JSONResponse({**facts.records, **problems})

    async def _find(self, request: Request, source: str, facts: _PushFacts) -> KnownSource:
        async with self.limits.look_up.taken(_PATIENCE_S, by=_address_of(request)):
            try:
                return await find_source(self.database, self.sealer, source)
            except StoreError:
                facts.has_failed = True
                raise

    async def _note(self, source: str) -> None:
        """Notes now and then that a source has pushed, so that one that falls silent shows."""
        running_s, again_s = monotonic(), self.limits.note_again_s
        if running_s < again_s.get(source, 0.0):
            return
        with suppress(StoreError):
            await note_run(self.database, PUSH_PREFIX + source, int(time()))
            again_s[source] = running_s + _NOTED_EVERY_S

    def _slot_for(self, request: Request) -> AbstractAsyncContextManager[None]:
        """The slot that a body needs before it is read; small ones need none."""
        if not self._is_large(request):
            return nullcontext()
        # A slow sender loses its slot before this time is over.
        patience_s = 1.5 * self.settings.body_timeout_s
        return self.limits.large.taken(patience_s, by=_address_of(request))

    def _is_large(self, request: Request) -> bool:
        announced = request.headers.get("content-length")
        if announced is None:
            return True
        if not announced.isdigit() or len(announced) > 18:
            raise _TooLargeError
        if int(announced) > self.settings.push_max_bytes:
            raise _TooLargeError
        return int(announced) > _SMALL_BYTES

    async def _body(self, request: Request) -> bytes:
        limit = self.settings.push_max_bytes
        body = bytearray()
        async with asyncio.timeout(self.settings.body_timeout_s) as time_limit:
            pace = asyncio.create_task(self._keep_pace(request, body, time_limit))
            try:
                async for piece in request.stream():
                    body += piece
                    if len(body) > limit:
                        raise _TooLargeError
            finally:
                pace.cancel()
        return bytes(body)

    async def _keep_pace(
        self, request: Request, body: bytearray, time_limit: asyncio.Timeout
    ) -> None:
        """Ends a large body that comes slowly while other addresses wait for its slot."""
        if not self._is_large(request):
            return
        waiting, address = self.limits.large, _address_of(request)
        a_second = self.settings.push_max_bytes / self.settings.body_timeout_s / _PACE_PART
        least = -a_second
        while len(body) > least or not waiting.others_wait(address):
            least += a_second
            await asyncio.sleep(1)
        if not time_limit.expired():
            time_limit.reschedule(asyncio.get_running_loop().time())

    async def _store(self, signed: _Signed, pushed: Pushed) -> int:
        """Stores a push; returns how many of its records were new or newer.

        A large one takes several commits: if one of them fails, nothing is acknowledged, and
        pushing all of it again stores what is missing.
        """
        stored = 0
        for start in range(0, len(pushed.good), _CHUNK_RECORDS):
            chunk = pushed.good[start : start + _CHUNK_RECORDS]
            stored += await self._store_chunk(signed, pushed, chunk)
        return stored

    async def _store_chunk(self, signed: _Signed, pushed: Pushed, chunk: Sequence[Good]) -> int:
        """Stores some records. Which of them would change what is not the source's own shows only
        in the transaction: those are rejected too, and the others stored again."""
        while chunk:
            rows = [each.row for each in chunk]
            try:
                return await store_records(self.database, self.loader, rows, signed.is_own)
            except NotOwnError as error:
                of_others = set(error.records)
                pushed.rejected.extend(
                    Rejected(each.number, each.text, str(error))
                    for each in chunk
                    if each.row in of_others
                )
                chunk = [each for each in chunk if each.row not in of_others]
        return 0

    async def _keep(self, signed: _Signed, rejected: Sequence[Rejected]) -> None:
        for start in range(0, len(rejected), _CHUNK_RECORDS):
            chunk = rejected[start : start + _CHUNK_RECORDS]
            rejects = await asyncio.to_thread(self._sealed, signed, chunk)
            await self.database.write(partial(keep_rejects, rejects=rejects))

    def _sealed(self, signed: _Signed, rejected: Sequence[Rejected]) -> list[dict[str, object]]:
        source, key, at_s, _ = signed
        return [
            sealed_reject(self.sealer, key, source, self.kind.name, each.text, each.reason, at_s)
            for each in rejected
        ]


def _not_stored(error: RejectsFullError | StoreError) -> Response:
    if isinstance(error, RejectsFullError):
        return _error(507, _FULL, _MUCH_LATER)
    return _error(503, "The push could not be stored: send it again later.", _LATER)


def _address_of(request: Request) -> str:
    context: RequestContext = request.scope[CONTEXT]
    return context.address


async def _recorded(
    kind: str,
    take: Callable[[Request, _PushFacts], Awaitable[Response]],
    metrics: Metrics,
    log: RequestLog,
    request: Request,
) -> Response:
    """Answers a push of one kind; counts and logs it."""
    began_s, facts = perf_counter(), _PushFacts()
    context: RequestContext = request.scope[CONTEXT]
    try:
        response = await take(request, facts)
    except Exception as error:
        extra = {"request_id": context.request_id}
        logger.error("a push failed unexpectedly", exc_info=error, extra=extra)
        response = JSONResponse({"error": "It was not your fault: send it again later."}, 500)
        facts.has_failed = True
    outcome = _OUTCOMES[response.status_code]
    metrics.pushed(kind, outcome)
    metrics.pushed_records(kind, facts.records)
    log.write(
        "tollway.push",
        context,
        is_failure=outcome != "stored" or facts.records["rejected"] > 0,
        # Without a valid signature, the name of a source proves nothing.
        is_unauthenticated=facts.source is None and not facts.has_failed,
        sender=None if outcome in _OF_GATEWAY else facts.source,
        kind=kind,
        source=facts.source,
        outcome=outcome,
        status=response.status_code,
        **facts.records,
        msec=round((perf_counter() - began_s) * 1000, 3),
    )
    return response


class _TooLargeError(Exception):
    """The body is larger than the settings allow."""


def push_routes(
    database: Database,
    sealer: Sealer,
    settings: Settings,
    kinds: Iterable[RecordKind],
    metrics: Metrics,
    log: RequestLog,
) -> list[Route]:
    limits = PushLimits()

    def routes(kind: RecordKind) -> Iterator[Route]:
        path, loader = f"/push/{kind.name}", kind.make_loader(sealer)
        pushes = Pushes(kind, loader, database, sealer, settings, limits)
        answer = partial(_recorded, kind.name, pushes, metrics, log)
        yield Route(path, answer, methods=["POST"])
        # Any other method is no push.
        yield Route(path, _error(405, "Send a POST.", {"Allow": "POST"}))

    pushed = [kind for kind in kinds if kind.is_pushed]
    known = " or ".join(sorted(f"/push/{kind.name}" for kind in pushed))
    # Not the envelope for unknown paths: its status 200 would look like an acknowledgement.
    missing = _error(404, f"Nothing is pushed to this path: send to {known}.")

    async def refuse(_request: Request, _facts: _PushFacts) -> Response:
        return missing

    refused = partial(_recorded, _UNKNOWN, refuse, metrics, log)
    others = [
        route
        for path in ("/push", "/push/{rest:path}")
        for route in (Route(path, refused, methods=["POST"]), Route(path, missing))
    ]
    return [*(route for kind in pushed for route in routes(kind)), *others]


def _error(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": sentence}, status, headers)
