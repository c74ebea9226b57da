"""The generated files of the Python SDK."""

import textwrap
from collections.abc import Sequence
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from sdk.generator.model import (
    FILE_NOTE,
    Described,
    Parameter,
    codes,
    described,
    described_files,
    loop_parameters,
    meanings_of,
    members_of,
    payload_types,
)
from tollway.contract.operation import Operation
from tollway.operations.account_api import ACCOUNT_OPERATIONS
from tollway.operations.account_api.operation import AccountOperation
from tollway.operations.catalogue import ALL_OPERATIONS

_HEAD = '"""{purpose}\n\nMade by `make sdk` from the gateway\'s descriptors: do not edit."""\n\n'
_TYPES = {
    "text": "str",
    "texts": "list[str]",
    "requests": "Sequence[WaybillsRequest]",
    "whole": "Union[int, str]",
    "day": "Union[date, str]",
    "moment": "Union[int, str, datetime]",
}


def files() -> dict[str, str]:
    """Every file by its path in the package; not yet formatted."""
    return {
        "types.py": _types(
            ALL_OPERATIONS, "The answers of the operations, in the spellings of the wire."
        )
        + _waybills_request(),
        "account_types.py": _types(ACCOUNT_OPERATIONS, "The answers of the account API."),
        "account.py": _account(is_async=False),
        "async_account.py": _account(is_async=True),
        "reasons.py": _reasons(),
        "client.py": _client(is_async=False),
        "async_client.py": _client(is_async=True),
    }


def _types(operations: Sequence[Operation], purpose: str) -> str:
    tops = {each.response_type for each in operations if not each.is_file}
    lines = [
        _HEAD.format(purpose=purpose),
        "from dataclasses import dataclass\nfrom typing import Optional, TypedDict, Union\n\n",
        "from tollway_client._json import Payload\n",
    ]
    for kind in payload_types(operations):
        base = "(Payload)" if kind in tops else ""
        lines.append(f"\n\n@dataclass(frozen=True)\nclass {kind.__name__}{base}:\n")
        if (text := (kind.__doc__ or "").strip()) and not text.startswith(f"{kind.__name__}("):
            lines.append(f'    """{text}"""\n\n')
        hints = get_type_hints(kind)
        meanings = meanings_of(kind)
        for field in msgspec.structs.fields(kind):
            default = "" if field.required else f" = {field.default!r}"
            lines.append(f"    {field.name}: {_python(hints[field.name])}{default}\n")
            lines.append(_meaning(meanings[field.name]))
    return "".join(lines)


def _meaning(text: str) -> str:
    """Where editors look for it."""
    wrapped = "\n    ".join(textwrap.wrap(text, 90))
    return f'    """{wrapped}"""\n'


def _waybills_request() -> str:
    """One waybill of a batch. Python 3.9 has no word for a key that may be left out, so those that
    may not are in a type of their own."""
    (waybills,) = [each for each in described() if each.operation.name == "waybills"]
    lines = ["\n\nclass _WaybillsNeeds(TypedDict):\n"]
    for is_required in (True, False):
        for each in waybills.parameters:
            if each.required is is_required:
                lines.append(f"    {each.name}: {_TYPES[each.kind]}\n")
                lines.append(_meaning(f"{each.meaning.rstrip('.')}. Send {each.expected}."))
        if is_required:
            lines.append("\n\nclass WaybillsRequest(_WaybillsNeeds, total=False):\n")
            lines.append(
                '    """One waybill of issue_waybills, with what issue_waybill takes."""\n\n'
            )
    return "".join(lines)


def _python(hint: Any) -> str:
    inner, is_optional = members_of(hint)
    # A name from a fixed list travels as a text.
    name = "str" if issubclass(get_origin(inner) or inner, str) else inner.__name__
    if get_origin(inner) is list:
        name = f"list[{_python(get_args(inner)[0])}]"
    return f"Optional[{name}]" if is_optional else name


def _reasons() -> str:
    head = _HEAD.format(purpose="The code of every reason that a call can be refused for.")
    rows = "".join(f'    "{name}": {code},\n' for name, code in codes().items())
    return f"{head}CODES = {{\n{rows}}}\n"


def _client(*, is_async: bool) -> str:
    kind = "asyncio" if is_async else "threads"
    name, driver = ("AsyncClient", "AsyncDriver") if is_async else ("Client", "SyncDriver")
    iterator = "AsyncIterator" if is_async else "Iterator"
    prefix = "Async" if is_async else ""
    types = {each.payload for each in described()}
    types |= {each.loop.record for each in described() if each.loop}
    return "".join(
        [
            _HEAD.format(purpose=f"The client for {kind}."),
            "from datetime import date, datetime\n",
            f"from collections.abc import {iterator}, Mapping, Sequence\n",
            "from typing import Optional, Union\n\n",
            "from tollway_client._core import Operation\n",
            "from tollway_client._json import Cost\n",
            f"from tollway_client._drivers import {driver}\n",
            f"from tollway_client.{prefix.lower()}{'_' * is_async}account import {prefix}Account\n",
            "from tollway_client._paging import claim_pages, file_pages, material_pages, "
            "order_pages\n",
            "from tollway_client.errors import CarrierRefusedError\n",
            f"from tollway_client.types import {', '.join(sorted(types))}, WaybillsRequest\n\n",
            *map(_constant, [*described(), *described_files()]),
            f'\n\nclass {name}({driver}):\n    """Calls the operations of a gateway."""\n\n',
            "    @property\n",
            f"    def account(self) -> {prefix}Account:\n",
            '        """The account API: free of charge, for live tokens."""\n',
            f"        return {prefix}Account(self)\n",
            _cost_of(is_async=is_async),
            *(_method(each, is_async=is_async) for each in described()),
            *(_loop(each, is_async=is_async) for each in described() if each.loop),
            *(_file_loop(each, is_async=is_async) for each in described_files()),
        ]
    )


def _cost_of(*, is_async: bool) -> str:
    start, wait = ("async def", "await ") if is_async else ("def", "")
    names = "".join(
        f'            "{each.method}": _{each.operation.name.upper()},\n' for each in described()
    )
    return (
        f"\n    {start} cost_of(self, method: str, **parameters: object) -> Cost:\n"
        '        """What a call would cost now, without making it; raises what it would raise.\n\n'
        "        method: the name of a method, such as `orders_export`.\n"
        "        parameters: those of that method.\n"
        '        """\n'
        f"        operations = {{\n{names}        }}\n"
        "        if method not in operations:\n"
        '            raise ValueError(f"There is no paid method {method!r}: "\n'
        "                f\"name one of {', '.join(operations)}.\")\n"
        f"        return {wait}self._run(self._core.call(operations[method], Cost, parameters, "
        'None, {"X-Tollway-Dry-Run": "1"}))\n'
    )


def _account(*, is_async: bool) -> str:
    endpoints = described(ACCOUNT_OPERATIONS)
    types = sorted({each.payload for each in endpoints})
    name, driver = ("AsyncAccount", "AsyncDriver") if is_async else ("Account", "SyncDriver")
    return "".join(
        [
            _HEAD.format(purpose=f"The account API, for {'asyncio' if is_async else 'threads'}."),
            "from datetime import date\nfrom typing import Optional, Union\n\n",
            "from tollway_client._core import Operation\n",
            f"from tollway_client._drivers import {driver}\n",
            f"from tollway_client.account_types import {', '.join(types)}\n\n",
            *map(_constant, endpoints),
            f'\n\nclass {name}:\n    """What a caller can know and change of its account."""\n\n',
            f"    def __init__(self, driver: {driver}) -> None:\n        self._driver = driver\n",
            *(_endpoint(each, is_async=is_async) for each in endpoints),
        ]
    )


def _endpoint(each: Described, *, is_async: bool) -> str:
    start, wait = ("async def", "await ") if is_async else ("def", "")
    values = ", ".join(f'"{p.name}": {p.name}' for p in each.parameters)
    signature = ", ".join(["self", *(["*"] if values else []), *map(_parameter, each.parameters)])
    return (
        f"\n    {start} {each.method}({signature}) -> {each.payload}:\n"
        f"{_docstring(each.title + '.', each.parameters)}"
        f"        return {wait}self._driver.run(_{each.operation.name.upper()}, {each.payload}, "
        f"{{{values}}})\n"
    )


def _constant(each: Described) -> str:
    it = each.operation
    values = [it.charged_as, it.method, it.path, it.encoding.value]
    if isinstance(it, AccountOperation):
        values.append("always" if it.method == "GET" else "unsent")
    return f"_{it.name.upper()} = Operation({', '.join(map(repr, values))})\n"


def _method(each: Described, *, is_async: bool) -> str:
    start, wait = ("async def", "await ") if is_async else ("def", "")
    key = "idempotency_key: Optional[str] = None"
    headers = "headers: Optional[Mapping[str, str]] = None"
    values = ", ".join(f'"{p.name}": {p.name}' for p in each.parameters)
    call = (
        f"{wait}self._run(self._core.call(_{each.operation.name.upper()}, {each.payload}, "
        f"{{{values}}}, idempotency_key, headers))"
    )
    signature = ", ".join([*map(_parameter, each.parameters), key, headers])
    body = f"        return {call}\n"
    if each.operation.name == "waybills":
        body = (
            f"        result = {call}\n        if result.code != 1:\n"
            "            raise CarrierRefusedError(result)\n        return result\n"
        )
    note = _CARRIER_NOTE if each.operation.name == "waybills" else ""
    return (
        f"\n    {start} {each.method}(self, *, {signature}) -> {each.payload}:\n"
        f"{_docstring(each.title + '.' + note, each.parameters)}{body}"
    )


_CARRIER_NOTE = " Raises CarrierRefusedError if the carrier issues none; nothing is charged then."


def _loop(each: Described, *, is_async: bool) -> str:
    assert each.loop is not None
    parameters = loop_parameters(each)
    names = {"startTime": "start", "endTime": "end"}
    values = ", ".join(f"{names.get(p.name, p.name)}={p.name}" for p in parameters)
    ask = f"self._core.asker(_{each.operation.name.upper()}, {each.payload})"
    iterator = "AsyncIterator" if is_async else "Iterator"
    text = f"{each.title}: all records, each once, also while others arrive."
    if "endTime" in each.loop.fixed or each.operation.name == "coupon_claims":
        text += " The time may be longer than 7 days."
    return (
        f"\n    def {each.loop.method}(self, *, {', '.join(map(_parameter, parameters))})"
        f" -> {iterator}[{each.loop.record}]:\n"
        f"{_docstring(text, parameters)}"
        f"        return self._each({each.loop.pages}({ask}, {values}))\n"
    )


def _file_loop(each: Described, *, is_async: bool) -> str:
    assert each.loop is not None
    iterator = "AsyncIterator" if is_async else "Iterator"
    values = ", ".join(f"{p.name}={p.name}" for p in each.parameters)
    constant = f"_{each.operation.name.upper()}"
    return (
        f"\n    def {each.method}(self, *, {', '.join(map(_parameter, each.parameters))})"
        f" -> {iterator}[{each.loop.record}]:\n"
        f"{_docstring(f'{each.title}: all its records. {FILE_NOTE}', each.parameters)}"
        f"        return self._each(file_pages(self._core, {constant}, {each.loop.record}, "
        f"{each.loop.key!r}, {values}))\n"
    )


def _parameter(each: Parameter) -> str:
    return _typed(each, _TYPES[each.kind])


def _typed(each: Parameter, kind: str) -> str:
    return f"{each.name}: {kind}" if each.required else f"{each.name}: Optional[{kind}] = None"


def _docstring(title: str, parameters: Sequence[Parameter]) -> str:
    lines = [*textwrap.wrap(title, 88, break_on_hyphens=False), ""]
    for each in parameters:
        text = f"{each.name}: {each.meaning.rstrip('.')}. Send {each.expected}."
        lines += textwrap.wrap(text, 88, subsequent_indent="    ", break_on_hyphens=False)
    body = "\n".join(f"        {line}".rstrip() for line in lines)
    return f'        """{body.strip()}\n        """\n'
