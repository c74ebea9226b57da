"""How one call is made, with neither sockets nor sleeping in it.

A call is a generator that yields what is to be done next, a request to send or a time to wait, and
is resumed with the response. `_drivers.py` does it, with threads or with asyncio: so there is one
implementation for both.
"""

import json
import random
import re
import uuid
from collections import deque
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional, TypeVar, Union
from urllib.parse import urlsplit

from tollway_client import errors
from tollway_client._json import Meta, Payload, on_the_wire, read
from tollway_client._lines import FILE_TYPE, Lines, Page
from tollway_client._pacing import Pacer

_FIRST_DELAY_S = 0.5
_DELAY_MAX_S = 20.0
# A call that is asked to wait longer than this ends, and its error says how long.
_ASKED_MAX_S = 60.0
_KEY = "Idempotency-Key"
_FIELDS = {"code", "msg", "msec", "time", "data"}
# A loop or a file that has begun is tried so many times as often as a call, which takes about a
# minute by default: ending would lose what was read.
_LOOP_PATIENCE = 2
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# From how many lines of a file, at most, it is tried to go on.
_LINES_BACK_MAX = 30


@dataclass(frozen=True)
class Operation:
    """Where an operation is, and how its parameters travel."""

    name: str
    method: str
    path: str
    encoding: str
    # When the same request may be sent again: "key" with its Idempotency-Key, "always", or
    # "unsent" if the gateway has certainly done nothing.
    repeats: str = "key"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    query: Optional[Mapping[str, str]] = None
    form: Optional[Mapping[str, str]] = None
    body: Optional[bytes] = None


@dataclass(frozen=True)
class Response:
    """An answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class NoResponse:
    """The request was sent, or not, and no answer came."""

    cause: Exception
    was_sent: bool


@dataclass(frozen=True)
class Wait:
    seconds: float


@dataclass(frozen=True)
class Open:
    """Sends a request whose answer is a file; the outcome has no body then."""

    request: Request


@dataclass(frozen=True)
class Read:
    """Reads on in the file that was opened last; the outcome is a piece of it, empty at its end."""


Outcome = Union[Response, NoResponse, bytes, None]
P = TypeVar("P", bound=Payload)
Call = Generator[Union[Request, Wait], Outcome, P]


class Core:
    """Makes calls: paced, repeated where that is safe, with errors by reason."""

    def __init__(self, token: str, retries: int, language: str) -> None:
        # None is what an environment variable that is not set gives.
        token = str(token or "").strip()
        if not (token and token.isascii() and token.isprintable() and " " not in token):
            raise ValueError("The token is empty or not whole: copy all of it, without Bearer.")
        if not (isinstance(retries, (int, float)) and retries >= 0):
            # With what is no number the first failure would be followed by no end of others.
            raise ValueError("retries must be a number, 0 or more.")
        self._headers = _checked({"Authorization": f"Bearer {token}", "Accept-Language": language})
        self._retries = retries
        self._pacer = Pacer()

    def call(
        self,
        operation: Operation,
        payload: type[P],
        values: Mapping[str, Any],
        key: Optional[str],
        headers: Optional[Mapping[str, str]],
        retries: Optional[int] = None,
    ) -> "Call[P]":
        """A call of an operation, repeated `retries` times; left out, as the client was made.

        A paid one always has an Idempotency-Key, so that a repetition is answered with the stored
        answer and not charged again, whether or not the first attempt arrived.
        """
        added = _checked(headers or {})
        most = self._retries if retries is None else retries
        # Two keys would be none, or one that is new each time.
        sent_key = next((added[name] for name in added if name.lower() == _KEY.lower()), None)
        if operation.repeats == "key" and sent_key is None:
            sent_key = added[_KEY] = str(uuid.uuid4()) if key is None else key
        if sent_key is not None and not _is_key(sent_key):
            raise ValueError(f"An {_KEY} is 1 to 255 printable ASCII characters.")
        request = _request(operation, values, {**self._headers, **added})
        attempt = 0
        while True:
            yield from self._paced(operation)
            outcome = yield request
            try:
                return self._payload(operation, payload, outcome, sent_key)
            except errors.TollwayError as error:
                error.idempotency_key = sent_key
                if attempt >= most or not _may_repeat(operation, outcome, error):
                    raise
                wait_s = _delay_s(attempt, error)
            attempt += 1
            yield Wait(wait_s)

    def _paced(self, operation: Operation) -> Generator[Wait, Outcome, None]:
        delay_s, at = self._pacer.reserve(operation.name)
        if delay_s > 0:
            try:
                yield Wait(delay_s)
            except GeneratorExit:
                self._pacer.give_back(operation.name, at)
                raise

    def asker(self, operation: Operation, payload: type[P]) -> "Callable[..., Call[P]]":
        """Makes the calls of a loop from parameters alone, each with a key of its own."""
        retries = self._retries

        def ask(**values: Any) -> "Call[P]":
            nonlocal retries
            answer = yield from self.call(operation, payload, values, None, None, retries)
            retries = self._retries * _LOOP_PATIENCE
            return answer

        return ask

    def file(
        self, operation: Operation, values: Mapping[str, Any], took: Callable[[bytes], str]
    ) -> Generator[Any, Any, None]:
        """Yields the lines of a file of gzip JSON Lines as pages. One that breaks off is asked for
        again after its last whole line, of which `took` says the name.

        A line whose record changed since the export is refused as that, and is no longer in the
        file: then it is asked for after the line before."""
        values, attempt, retries = dict(values), 0, self._retries
        given: deque[bytes] = deque(maxlen=_LINES_BACK_MAX)
        while True:
            yield from self._paced(operation)
            outcome = yield Open(_request(operation, values, self._headers))
            try:
                self._check_file(operation, outcome)
                reading = Lines()
                while not reading.is_whole:
                    outcome = yield Read()
                    if lines := reading.add(outcome):
                        given.extend(lines)
                        values["after"], attempt = took(lines[-1]), 0
                        retries = self._retries * _LOOP_PATIENCE
                        yield Page(lines)
                return
            except errors.ParameterError:
                if len(given) < 2:
                    raise
                given.pop()
                values["after"] = took(given[-1])
                continue
            except errors.TollwayError as error:
                if attempt >= retries or not _is_passing(error):
                    raise
                wait_s = _delay_s(attempt, error)
            attempt += 1
            yield Wait(wait_s)

    def _check_file(self, operation: Operation, outcome: Outcome) -> None:
        if not isinstance(outcome, Response):
            raise _no_answer(outcome)
        self._pacer.learn(operation.name, outcome.headers.get("ratelimit-policy", ""))
        if outcome.headers.get("content-type") != FILE_TYPE:
            raise errors.refused(_envelope(outcome), outcome.headers, outcome.status)

    def _payload(
        self, operation: Operation, payload: type[P], outcome: Outcome, key: Optional[str]
    ) -> P:
        if not isinstance(outcome, Response):
            raise _no_answer(outcome)
        self._pacer.learn(operation.name, outcome.headers.get("ratelimit-policy", ""))
        envelope = _envelope(outcome)
        if envelope["code"] != 0:
            raise errors.refused(envelope, outcome.headers, outcome.status)
        try:
            found = read(payload, envelope["data"])
        except TypeError as error:
            raise _unexpected(outcome) from error
        meta = Meta(
            outcome.headers.get("x-request-id", ""),
            envelope["msec"],
            envelope["time"],
            outcome.headers.get("x-replay-of"),
            outcome.headers,
            key,
        )
        # The dataclass is frozen for its users.
        object.__setattr__(found, "meta", meta)
        return found


def _checked(headers: Mapping[str, str]) -> "dict[str, str]":
    """Headers without spaces around their values. What cannot be sent is no lost connection, and
    would fail again each time."""
    return {name: _header_value(name, value) for name, value in headers.items()}


def _header_value(name: str, value: str) -> str:
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"The header {name!r} cannot be sent: its name is not one.")
    text = value.strip(" \t") if isinstance(value, str) else None
    if text is None or not (text.isascii() and text.replace("\t", " ").isprintable()):
        raise ValueError(
            f"The header {name!r} cannot be sent: its value must be a text of printable ASCII "
            "characters."
        )
    return text


def _is_key(text: str) -> bool:
    return 1 <= len(text) <= 255 and text.isascii() and text.isprintable()


def checked_base_url(base_url: str) -> str:
    address = str(base_url or "").strip()
    if not address.startswith(("https://", "http://")):
        raise ValueError("The address must begin with https://, such as https://gateway.example.")
    if not _is_address(address):
        # A user in it would be sent instead of the token, and ? or # would swallow the path.
        raise ValueError(
            "Give the address as https://gateway.example, with a port or a path at most."
        )
    address = address.rstrip("/")
    if address.endswith(("/papi", "/papi/tool")):
        raise ValueError("The address is the gateway's alone, without /papi/tool.")
    return address


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return has_host and not re.search(r"[\s?#@\\]", text)


def _no_answer(outcome: Outcome) -> errors.TransportError:
    error = errors.TransportError("No answer arrived.")
    if isinstance(outcome, NoResponse):
        error = errors.TransportError(f"No answer: {outcome.cause!r}")
        error.__cause__ = outcome.cause
    return error


def _request(
    operation: Operation, values: Mapping[str, Any], headers: Mapping[str, str]
) -> Request:
    sent: dict[str, Any] = {
        name: on_the_wire(value) for name, value in values.items() if value is not None
    }
    if operation.encoding == "json":
        typed = {**headers, "Content-Type": "application/json"}
        body = json.dumps(sent).encode()
        return Request(operation.method, operation.path, typed, body=body)
    texts = {name: str(value) for name, value in sent.items()}
    if operation.encoding == "query":
        return Request(operation.method, operation.path, headers, query=texts)
    return Request(operation.method, operation.path, headers, form=texts)


def _envelope(response: Response) -> dict[str, Any]:
    try:
        envelope = json.loads(response.body)
    except (ValueError, RecursionError):
        envelope = None
    if not isinstance(envelope, dict) or not envelope.keys() >= _FIELDS:
        raise _unexpected(response)
    if not isinstance(envelope["code"], int) or not isinstance(envelope["data"], dict):
        raise _unexpected(response)
    return envelope


def _unexpected(response: Response) -> errors.UnexpectedAnswerError:
    return errors.not_answered(response.status, response.body, response.headers)


def _may_repeat(operation: Operation, outcome: Outcome, error: errors.TollwayError) -> bool:
    if operation.repeats != "unsent":
        return _is_passing(error)
    is_unsent = isinstance(outcome, NoResponse) and not outcome.was_sent
    return is_unsent or (isinstance(error, errors.ThrottledError) and _is_passing(error))


def _is_passing(error: errors.TollwayError) -> bool:
    if _asked_s(error) > _ASKED_MAX_S:
        return False
    if isinstance(error, errors.RefusedError):
        return error.is_retryable
    return isinstance(error, (errors.TransportError, errors.UnavailableError))


def _delay_s(attempt: int, error: errors.TollwayError) -> float:
    """Longer each time, and different for each client, or all would come back together."""
    longest = min(_DELAY_MAX_S, _FIRST_DELAY_S * 2.0**attempt)
    delay_s = random.uniform(longest / 2, longest)  # noqa: S311 - it spreads load
    return max(delay_s, _asked_s(error))


def _asked_s(error: errors.TollwayError) -> float:
    return getattr(error, "retry_after_s", None) or 0.0
