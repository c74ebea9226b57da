"""The end of every call: whatever happened becomes one envelope, one log line and one count."""

import logging
from collections.abc import Callable
from functools import lru_cache
from time import perf_counter

from tollway.contract.envelope import NO_DATA, as_repetition, encode_data, encode_envelope
from tollway.contract.reasons import SUCCESS, Cause, Reason, Refusal
from tollway.ledger.charges import OverLimitError, ShortageError
from tollway.ledger.token_limits import DayCapError
from tollway.pipeline.call import Answer, Call
from tollway.pipeline.permit import cannot_pay
from tollway.pipeline.throttle import Throttle
from tollway.store.database import CommitUnknownError, StoreBusyError, StoreError
from tollway.telemetry.calls import CallRecorder
from tollway.telemetry.requests import CLIENT_ID_HEADER, ID_HEADER, NO_IDS

_SUCCESS_MSG = {language: encode_data(SUCCESS.message.said(language)) for language in ("en", "zh")}
REASON_HEADER = b"x-tollway-reason"
_REASON_HEADERS = {each.name: (REASON_HEADER, each.name.encode("ascii")) for each in Reason}
_CONTENT_TYPE = (b"content-type", b"application/json; charset=utf-8")
# A caching proxy must not give one caller's answer to another.
NO_STORE = (b"cache-control", b"no-store")
_RETRY_AFTER = (b"retry-after", b"1")
_CHALLENGE = (b"www-authenticate", b"Bearer")
# Reasons that come in floods. Their messages contain only small numbers, so they are cached.
_FREQUENT = {
    each.name
    for each in (
        Reason.CREDENTIAL_INVALID,
        Reason.THROTTLED,
        Reason.CALLS_USED_UP,
        Reason.CREDITS_USED_UP,
    )
}

logger = logging.getLogger("tollway.call")


class Enveloper:
    """Makes the answer to a call that succeeded, was refused or failed.

    `record_refused` gets each call of an account that was not charged, its code, reason and
    refusal. It is None for requests that are always free: those have no receipt, and as an account
    has dozens of them, each with a limit of its own, their log lines are limited too.
    """

    def __init__(
        self,
        throttle: Throttle,
        recorder: CallRecorder,
        record_refused: Callable[[Call, int, str, Refusal | None], None] | None,
        *,
        mapped: bool,
    ) -> None:
        self._throttle = throttle
        self._recorder = recorder
        self._record_refused = record_refused
        self._mapped = mapped

    def success(self, call: Call) -> Answer:
        data = call.data if call.replay_of is None else as_repetition(call.data)
        answer = self._answer(call, SUCCESS, "SUCCESS", _SUCCESS_MSG[call.language], data)
        if call.stream is None:
            return answer
        content_type = (b"content-type", call.stream.content_type.encode("ascii"))
        return Answer(answer.status, [content_type, *answer.headers[1:]], b"", call.stream)

    def failure(self, call: Call, error: Exception) -> Answer:
        call.charged = 0
        if call.stream is not None:
            call.stream.end()
        if isinstance(error, OverLimitError):
            error = self._throttle.take_back(call, error.until_ns)
        refusal = error if isinstance(error, Refusal) else _refusal(call, error)
        try:
            msg = _message(refusal, call.language)
        except KeyError as missing:
            # An installed operation left out a value that the message needs.
            refusal = _refusal(call, missing)
            msg = _message(refusal, call.language)
        # The attributes behind `value` and `name`, which are slow Python properties.
        cause, name = refusal.reason._value_, refusal.reason._name_
        data = NO_DATA if refusal.data is None else encode_data(refusal.data)
        answer = self._answer(call, cause, name, msg, data, refusal)
        # HTTP requires these headers with their statuses, and some clients fail without them.
        if answer.status == 401:
            answer.headers.append(_CHALLENGE)
        elif answer.status == 405:
            answer.headers.append((b"allow", str(refusal.values["allowed"]).encode("ascii")))
        return answer

    def _answer(
        self,
        call: Call,
        cause: Cause,
        reason: str,
        msg: bytes,
        data: bytes,
        refusal: Refusal | None = None,
    ) -> Answer:
        elapsed_s = perf_counter() - call.began_s
        code, status, _ = cause
        body = encode_envelope(
            code, msg, int(elapsed_s * 1000 + 0.5), int(call.at_s + elapsed_s), data
        )
        # In logs and metrics, a fault that a test call asked for is no fault of the gateway.
        is_simulated = call.is_simulated
        client_ids = call.client_ids
        account_id = call.account_id
        record = (
            call.at_s,
            call.request_id,
            call.operation_name,
            account_id,
            0 if is_simulated else code,
            "SIMULATED" if is_simulated else reason,
            call.charged,
            elapsed_s,
            client_ids,
            account_id is not None and call.caller.is_test,
            call.admission is not None and self._record_refused is not None,
        )
        self._recorder.record(record)
        headers = [_CONTENT_TYPE, NO_STORE, (ID_HEADER, call.request_id.encode("ascii"))]
        if client_ids is not NO_IDS and client_ids.request_id:
            headers.append((CLIENT_ID_HEADER, client_ids.request_id.encode("ascii")))
        if call.replay_of is not None:
            headers.append((b"x-replay-of", call.replay_of.encode("ascii")))
        if call.ignored:
            headers.append((b"x-ignored-parameters", call.ignored.encode("ascii")))
        if account_id is not None:
            if not call.charged and self._record_refused is not None:
                self._record_refused(call, code, reason, refusal)
            # The rate limit, on every authenticated answer.
            admission = call.admission or self._throttle.left_for(call)
            policy, left = _rate_headers(call.operation_name, admission.limit)
            headers += policy, (b"ratelimit", left % admission.remaining)
        if code:
            # Programs need it: a code has several reasons, and the message is for people.
            headers.append(_REASON_HEADERS[reason])
        if status == 429:
            headers.append(_RETRY_AFTER)
        return Answer(status if self._mapped else 200, headers, body)


def _message(refusal: Refusal, language: str) -> bytes:
    name = refusal.reason._name_
    if name in _FREQUENT:
        return _frequent_message(name, language, tuple(refusal.values.items()))
    return encode_data(refusal.message(language))


@lru_cache(maxsize=1024)
def _frequent_message(name: str, language: str, values: tuple[tuple[str, object], ...]) -> bytes:
    return encode_data(Refusal(Reason[name], **dict(values)).message(language))


def _refusal(call: Call, error: Exception) -> Refusal:
    if isinstance(error, ShortageError | DayCapError):
        return cannot_pay(call.operation, error, call.price)
    if isinstance(error, StoreBusyError):
        return Refusal(Reason.TIMED_OUT)
    extra = {"request_id": call.request_id}
    if isinstance(error, CommitUnknownError):
        logger.error("a commit is in doubt: %s", error, extra=extra)
        return Refusal(Reason.COMMIT_IN_DOUBT)
    if isinstance(error, StoreError):
        logger.error("the database is unavailable: %s", error, extra=extra)
        return Refusal(Reason.STORE_UNAVAILABLE)
    # The trace goes to the log; the caller gets a fixed sentence.
    logger.error("a call failed unexpectedly", exc_info=error, extra=extra)
    return Refusal(Reason.INTERNAL)


@lru_cache(maxsize=4096)
def _rate_headers(operation: str, limit: int) -> tuple[tuple[bytes, bytes], bytes]:
    """The RateLimit-Policy header, and a template of the RateLimit header's value."""
    policy = (b"ratelimit-policy", f'"{operation}";q={limit};w=1'.encode())
    return policy, f'"{operation}";r=%d;t=1'.encode()
