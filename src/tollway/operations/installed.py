"""The subjects that installed packages bring by the entry point `tollway.operations`.

They are trusted code, but a mistake in one must show when the gateway starts, not to its callers.
So this module checks each against what the rest of the gateway takes for granted.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from importlib.metadata import EntryPoint
from typing import Any

import msgspec
from msgspec.structs import replace

from tollway.contract.decoding import declared_fields
from tollway.contract.language import Phrase
from tollway.contract.operation import CallInfo, ConsentNeed, Encoding, Operation, Unit
from tollway.contract.reasons import Reason
from tollway.operations.subject import Counted, Handler, Priced, Result, Services, Subject
from tollway.settings import SettingsError
from tollway.store.schema import metadata

ENTRY_POINTS = "tollway.operations"

# Names go into metrics, logs and headers as they are.
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
# No page of the gateway has such a path, and reverse proxies let it through.
_PATH = re.compile(r"/papi(/[A-Za-z0-9_-]+)+")
# The field in which every operation that takes credits reports them.
_MONEY = "withholding_money"
# A descriptor is made by code that need not be type-checked.
_TYPES = {
    "name": str,
    "method": str,
    "path": str,
    "encoding": Encoding,
    "unit": Unit,
    "default_price": int,
    "own_reasons": tuple,
}


def with_installed(built_in: Iterable[Subject], found: Iterable[EntryPoint]) -> Iterator[Subject]:
    """The built-in subjects, and then the installed ones by name."""
    operations: list[Operation] = []
    for subject in built_in:
        operations += _operations_of(subject)
        yield subject
    for entry_point in sorted(found):
        package = entry_point.dist.name if entry_point.dist else entry_point.name
        try:
            subject = _load(entry_point)
            for problem in _problems(subject, operations):
                raise SettingsError(problem)
        except SettingsError as error:
            raise SettingsError(
                f"The package {package} cannot be used, because {error}: "
                "correct it or uninstall it."
            ) from error.__cause__
        operations += _operations_of(subject)
        yield with_checked_handlers(subject, package)


def _operations_of(subject: Subject) -> list[Operation]:
    return [subject.operation, *(each.operation for each in subject.more_calls)]


def _load(entry_point: EntryPoint) -> Subject:
    tables = set(metadata.tables)
    try:
        subject = entry_point.load()
    except (Exception, SystemExit) as error:
        raise SettingsError(
            f"{entry_point.value} cannot be loaded ({type(error).__name__}: {error})"
        ) from error
    if not isinstance(subject, Subject):
        raise SettingsError(f"{entry_point.value} is no tollway.operations.subject.Subject")
    if added := set(metadata.tables) - tables:
        # No migration would create it, and every backup and move would miss it.
        raise SettingsError(f"it adds the table {min(added)} to those of Tollway")
    return subject


def _problems(subject: Subject, others: list[Operation]) -> Iterator[str]:
    if subject.records is not None or subject.retained is not None:
        yield "it brings records, for which there are no tables"
    own = _operations_of(subject)
    for number, operation in enumerate(own):
        yield from _problems_of(operation, [*others, *own[:number]])
        if operation.belongs_to != (subject.operation.name if number else ""):
            yield f"{operation.name} belongs to {operation.belongs_to or 'nothing'}"


def _problems_of(operation: Operation, others: list[Operation]) -> Iterator[str]:
    yield from _wrong_types(operation)
    name, path, encoding = operation.name, operation.path, operation.encoding
    if not _NAME.fullmatch(name):
        yield f"the name {name!r} is not made of a-z, 0-9 and _"
    if not _PATH.fullmatch(path):
        yield f"the path {path!r} is not /papi/ followed by plain words"
    if name in [each.name for each in others]:
        yield f"there is another operation {name}"
    if path in [each.path for each in others]:
        yield f"there is another operation at {path}"
    if operation.method != (method := "GET" if encoding is Encoding.QUERY else "POST"):
        yield f"parameters as {encoding.value} go with {method} and not with {operation.method}"
    if operation.default_price < 0:
        yield "its price is negative"
    if operation.unit is Unit.CREDITS and _MONEY not in operation.response_type.__struct_fields__:
        yield f"it takes credits, and its answer has no field {_MONEY}"
    yield from _problems_of_text("its title", operation.title)
    yield from _problems_of_text("its note", operation.note, may_be_empty=True)
    yield from _problems_of_request(operation, others)


def _wrong_types(operation: Operation) -> Iterator[str]:
    for name, kind in _TYPES.items():
        if not isinstance(value := getattr(operation, name), kind):
            yield f"its {name} is {value!r} and no {kind.__name__}"
    for each in operation.own_reasons:
        if not isinstance(each, Reason):
            yield f"its own_reasons have {each!r} and no Reason"
    if not isinstance(operation.consent, ConsentNeed | None):
        yield f"its consent is {operation.consent!r} and no ConsentNeed"
    for name in ("request_type", "response_type"):
        kind = getattr(operation, name)
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            yield f"its {name} is {kind!r} and no msgspec.Struct"


def _problems_of_request(operation: Operation, others: list[Operation]) -> Iterator[str]:
    try:
        fields = declared_fields(operation.request_type)
    except TypeError as error:
        yield str(error)
        return
    for each in fields:
        what = f"the meaning of {each.name}"
        yield from _problems_of_text(what, each.field.meaning, may_be_empty=True)
    yield from _problems_of_consent(operation, [each.name for each in fields], others)


def _problems_of_text(what: str, text: object, *, may_be_empty: bool = False) -> Iterator[str]:
    """Checks a text for people, in one language or in both."""
    for each in text if isinstance(text, Phrase) else (text,):
        if not isinstance(each, str):
            yield f"{what} is {text!r} and neither a str nor a Phrase"
        elif not each.strip() and not may_be_empty:
            yield f"{what} is empty"


def _problems_of_consent(
    operation: Operation, names: list[str], others: list[Operation]
) -> Iterator[str]:
    need = operation.consent
    if need is None:
        return
    yield from _problems_of_text("what its consent asks", need.asks)
    if need.field not in names:
        yield f"its request has no field {need.field} to name the owner"
    # An owner reads one sentence per scope, so it must be true of every operation that asks for it.
    for each in others:
        other = each.consent or need
        is_same = (other.whose, other.scope) == (need.whose, need.scope)
        if is_same and other.asks != need.asks:
            yield f"{each.name} asks for the scope {need.scope} in other words"


_json = msgspec.json.Decoder(msgspec.Raw)


class HandlerError(Exception):
    """A handler broke a rule for handlers."""


def with_checked_handlers(subject: Subject, package: str) -> Subject:
    """The subject of a package, with handlers whose mistakes cost its callers nothing."""
    more_calls = tuple(
        replace(each, make_handler=_checked(each.make_handler, package))
        if each.make_handler is not None
        else each
        for each in subject.more_calls
    )
    made = _checked(subject.make_handler, package)
    return replace(subject, make_handler=made, more_calls=more_calls)


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
