"""Does what calls ask for: with threads, or with asyncio."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar, Union

import httpx

from tollway_client import __version__
from tollway_client._core import (
    Call,
    Core,
    NoResponse,
    Open,
    Operation,
    Outcome,
    Read,
    Request,
    Response,
    Wait,
    checked_base_url,
)
from tollway_client._json import Payload
from tollway_client._lines import FILE_TYPE, Page
from tollway_client._paging import Pages

_OWN_HEADERS = {"User-Agent": f"tollway-client-python/{__version__}"}
P = TypeVar("P", bound=Payload)
T = TypeVar("T")
S = TypeVar("S", bound="SyncDriver")
A = TypeVar("A", bound="AsyncDriver")


class UnusableEnvironmentError(ValueError):
    """What the environment says about connections cannot be used."""


def _made(kind: Callable[..., T], timeout_s: float) -> T:
    """A client of `httpx`, which takes proxies and certificates from the environment."""
    try:
        return kind(timeout=timeout_s, headers=_OWN_HEADERS)
    except (ImportError, OSError, ValueError) as error:
        raise UnusableEnvironmentError(
            "A proxy or a file of certificates that the environment names cannot be used: "
            f"{str(error).rstrip('.')}. Look at HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE "
            "and SSL_CERT_DIR."
        ) from error


def _arguments(request: Request) -> Any:
    # A part without a file name is a plain field of the form.
    files = None
    if request.form is not None:
        files = {name: (None, value.encode()) for name, value in request.form.items()}
    return {
        "params": request.query,
        "files": files,
        "content": request.body,
        "headers": dict(request.headers),
    }


def _response(found: httpx.Response) -> Response:
    headers = {name.lower(): value for name, value in found.headers.items()}
    return Response(found.status_code, headers, b"" if _is_file(found) else found.content)


def _is_file(found: httpx.Response) -> bool:
    return bool(found.headers.get("content-type") == FILE_TYPE)


def _no_response(error: httpx.RequestError) -> NoResponse:
    unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
    return NoResponse(error, was_sent=not isinstance(error, unsent))


class _SyncFile:
    """The file that is being read."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._response: Optional[httpx.Response] = None
        self._pieces: Iterator[bytes] = iter(())

    def open(self, base_url: str, request: Request) -> Outcome:
        self.close()
        built = self._http.build_request(
            request.method, f"{base_url}{request.path}", **_arguments(request)
        )
        try:
            self._response = self._http.send(built, stream=True)
            if not _is_file(self._response):
                self._response.read()
            self._pieces = self._response.iter_raw()
            return _response(self._response)
        except httpx.RequestError as error:
            return _no_response(error)

    def read(self) -> Outcome:
        try:
            return next(self._pieces, b"")
        except httpx.RequestError as error:
            return _no_response(error)

    def close(self) -> None:
        if self._response is not None:
            self._response.close()


class SyncDriver:
    """A client for threads: one can be shared by any number of them.

    token: of your account; a test token uses the sandbox.
    base_url: where the gateway is, such as https://gateway.example.
    retries: how often a call is repeated that may succeed then; twice as often in a loop or a file
        that has begun.
    timeout_s: how long one attempt may wait for the gateway.
    language: of messages, such as zh.
    http: what sends the requests, if not a client of its own; closing this closes it too.
    """

    def __init__(
        self,
        token: str,
        base_url: str,
        *,
        retries: int = 4,
        timeout_s: float = 30.0,
        language: str = "en",
        http: Optional[httpx.Client] = None,
    ) -> None:
        self._core = Core(token, retries, language)
        self._base_url = checked_base_url(base_url)
        self._http = http or _made(httpx.Client, timeout_s)

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def run(self, operation: Operation, payload: type[P], values: Mapping[str, Any]) -> P:
        """Calls an endpoint that takes parameters and nothing else."""
        return self._run(self._core.call(operation, payload, values, None, None))

    def _run(self, call: "Call[P]") -> P:
        outcome: Outcome = None
        # A call that is interrupted or cancelled ends now, and not when it is collected.
        with closing(call):
            while True:
                try:
                    step = call.send(outcome)
                except StopIteration as done:
                    found: P = done.value
                    return found
                outcome = self._do(step)

    def _each(self, pages: "Pages[T]") -> Iterator[T]:
        outcome: Outcome = None
        file = _SyncFile(self._http)
        try:
            while True:
                try:
                    step = pages.send(outcome)
                except StopIteration:
                    return
                if isinstance(step, Page):
                    yield from step.records
                    outcome = None
                elif isinstance(step, Open):
                    outcome = file.open(self._base_url, step.request)
                elif isinstance(step, Read):
                    outcome = file.read()
                else:
                    outcome = self._do(step)
        finally:
            # Also if the caller stops in the middle.
            pages.close()
            file.close()

    def _do(self, step: Union[Request, Wait]) -> Outcome:
        if isinstance(step, Wait):
            time.sleep(step.seconds)
            return None
        try:
            url = f"{self._base_url}{step.path}"
            return _response(self._http.request(step.method, url, **_arguments(step)))
        except httpx.RequestError as error:
            return _no_response(error)


class _AsyncFile:
    """The same, for asyncio."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._response: Optional[httpx.Response] = None
        self._pieces: Optional[AsyncIterator[bytes]] = None

    async def open(self, base_url: str, request: Request) -> Outcome:
        await self.close()
        built = self._http.build_request(
            request.method, f"{base_url}{request.path}", **_arguments(request)
        )
        try:
            self._response = await self._http.send(built, stream=True)
            if not _is_file(self._response):
                await self._response.aread()
            self._pieces = self._response.aiter_raw()
            return _response(self._response)
        except httpx.RequestError as error:
            return _no_response(error)

    async def read(self) -> Outcome:
        assert self._pieces is not None
        try:
            return await self._pieces.__anext__()
        except StopAsyncIteration:
            return b""
        except httpx.RequestError as error:
            return _no_response(error)

    async def close(self) -> None:
        if self._response is not None:
            await self._response.aclose()


class AsyncDriver:
    """A client for asyncio: one can be shared by any number of tasks of one event loop.

    token: of your account; a test token uses the sandbox.
    base_url: where the gateway is, such as https://gateway.example.
    retries: how often a call is repeated that may succeed then; twice as often in a loop or a file
        that has begun.
    timeout_s: how long one attempt may wait for the gateway.
    language: of messages, such as zh.
    http: what sends the requests, if not a client of its own; closing this closes it too.
    """

    def __init__(
        self,
        token: str,
        base_url: str,
        *,
        retries: int = 4,
        timeout_s: float = 30.0,
        language: str = "en",
        http: Optional[httpx.AsyncClient] = None,
    ) -> None:
        self._core = Core(token, retries, language)
        self._base_url = checked_base_url(base_url)
        self._http = http or _made(httpx.AsyncClient, timeout_s)

    async def __aenter__(self: A) -> A:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def run(self, operation: Operation, payload: type[P], values: Mapping[str, Any]) -> P:
        """Calls an endpoint that takes parameters and nothing else."""
        return await self._run(self._core.call(operation, payload, values, None, None))

    async def _run(self, call: "Call[P]") -> P:
        outcome: Outcome = None
        # A call that is interrupted or cancelled ends now, and not when it is collected.
        with closing(call):
            while True:
                try:
                    step = call.send(outcome)
                except StopIteration as done:
                    found: P = done.value
                    return found
                outcome = await self._do(step)

    async def _each(self, pages: "Pages[T]") -> AsyncIterator[T]:
        outcome: Outcome = None
        file = _AsyncFile(self._http)
        try:
            while True:
                try:
                    step = pages.send(outcome)
                except StopIteration:
                    return
                if isinstance(step, Page):
                    for record in step.records:
                        yield record
                    outcome = None
                elif isinstance(step, Open):
                    outcome = await file.open(self._base_url, step.request)
                elif isinstance(step, Read):
                    outcome = await file.read()
                else:
                    outcome = await self._do(step)
        finally:
            # Also if the caller stops in the middle.
            pages.close()
            await file.close()

    async def _do(self, step: Union[Request, Wait]) -> Outcome:
        if isinstance(step, Wait):
            await asyncio.sleep(step.seconds)
            return None
        try:
            url = f"{self._base_url}{step.path}"
            return _response(await self._http.request(step.method, url, **_arguments(step)))
        except httpx.RequestError as error:
            return _no_response(error)
