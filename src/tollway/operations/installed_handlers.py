"""Handlers of installed packages: checks what they raise and return before the call is charged."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from tollway.contract.operation import CallInfo
from tollway.operations.subject import Counted, Handler, Priced, Result, Services, Subject
from tollway.settings import SettingsError

_json = msgspec.json.Decoder(msgspec.Raw)


class HandlerError(Exception):
    """A handler broke a rule for handlers."""


def with_checked_handlers(subject: Subject, package: str) -> Subject:
    """The subject of a package, with handlers whose mistakes cost its callers nothing."""
    companions = tuple(
        replace(each, make_handler=_checked(each.make_handler, package))
        if each.make_handler is not None
        else each
        for each in subject.companions
    )
    made = _checked(subject.make_handler, package)
    return replace(subject, make_handler=made, companions=companions)


def _checked(
    make_handler: Callable[[Services], Handler], package: str
) -> Callable[[Services], Handler]:
    def make(services: Services) -> Handler:
        try:
            return _checked_handler(make_handler(services))
        except Exception as error:
            raise SettingsError(
                f"The package {package} cannot be used, because its make_handler failed "
                f"({type(error).__name__}: {error}): correct it or uninstall it."
            ) from error

    return make


def _checked_handler(handle: Handler) -> Handler:
    async def checked(request: Any, info: CallInfo) -> Result:
        try:
            found = handle(request, info)
            result: Result = await found if isinstance(found, Awaitable) else found
        except (asyncio.CancelledError, SystemExit) as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Nothing is stopping the call or the gateway: treat it like any other handler error.
            raise HandlerError(f"the handler raised {type(error).__name__}") from error
        _check(result)
        return result

    return checked


def _check(result: Result) -> None:
    data = result.data if isinstance(result, Counted | Priced) else result
    if isinstance(result, Priced) and result.act is not None:
        # The act makes the payload.
        return
    if isinstance(result, Counted | Priced) and not isinstance(data, bytes):
        raise HandlerError(f"the handler returned a payload that is {type(data)}")
    if isinstance(data, bytes):
        _json.decode(data)
