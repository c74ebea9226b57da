"""The generated files of the TypeScript SDK."""

import textwrap
from collections.abc import Sequence
from inspect import cleandoc
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from sdk.generator.model import (
    FILE_NOTE,
    Described,
    codes,
    described,
    described_files,
    loop_parameters,
    meanings_of,
    members_of,
    payload_types,
)
from tollway import __version__
from tollway.contract.operation import Operation
from tollway.operations.account_api import ACCOUNT_OPERATIONS
from tollway.operations.account_api.operation import AccountOperation
from tollway.operations.catalogue import ALL_OPERATIONS

_HEAD = """\
/**
 * {purpose}
 *
 * Made by `make sdk` from the gateway's descriptors: do not edit.
 */
"""
_SENT = {
    "text": "string",
    "texts": "readonly string[]",
    "requests": "readonly WaybillsRequest[]",
    "whole": "Whole",
    "day": "Day",
    "moment": "Moment",
}
_RECEIVED: dict[Any, str] = {str: "string", int: "number", float: "number", bool: "boolean"}
_CARRIER_NOTE = "Throws CarrierRefusedError if the carrier issues none; nothing is charged then."
_WIDTH = 100
_LOOP_NOTE = "all records, each once, also while others arrive."


def files() -> dict[str, str]:
    """Every file by its name in `src`."""
    purpose = "The answers of the operations, in the spellings of the wire."
    return {
        "types.ts": _types(ALL_OPERATIONS, purpose),
        "account_types.ts": _types(ACCOUNT_OPERATIONS, "The answers of the account API."),
        "account.ts": _account(),
        "reasons.ts": _reasons(),
        "client.ts": _client(),
        "version.ts": _version(),
    }


def _version() -> str:
    head = _HEAD.format(purpose="The version of this package, which is that of the gateway.")
    return f'{head}\nexport const VERSION = "{__version__}";\n'


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _types(operations: Sequence[Operation], purpose: str) -> str:
    lines = [_HEAD.format(purpose=purpose)]
    for kind in payload_types(operations):
        text = cleandoc(kind.__doc__ or "")
        lines.append("\n")
        if text and not text.startswith(f"{kind.__name__}("):
            lines += _comment(textwrap.wrap(text, 94), "")
        lines.append(f"export interface {kind.__name__} {{\n")
        hints = get_type_hints(kind)
        meanings = meanings_of(kind)
        for field in msgspec.structs.fields(kind):
            mark = "" if field.required else "?"
            lines += _comment(textwrap.wrap(meanings[field.name], 92), "  ")
            lines.append(f"  {field.name}{mark}: {_received(field.name, hints[field.name])};\n")
        lines.append("}\n")
    return "".join(lines)


def _received(name: str, hint: Any) -> str:
    inner, is_optional = members_of(hint)
    if get_origin(inner) is list:
        found = f"{_received('', get_args(inner)[0])}[]"
    elif issubclass(inner, str):
        # A name from a fixed list travels as a text.
        found = "string"
    else:
        found = _RECEIVED.get(inner, inner.__name__)
    if inner is int and name.endswith("_id"):
        # Some ids are larger than what a number holds exactly.
        found = "number | string"
    return f"{found} | null" if is_optional else found


def _reasons() -> str:
    head = _HEAD.format(purpose="The code of every reason that a call can be refused for.")
    rows = "".join(f"  {name}: {code},\n" for name, code in codes().items())
    names = "export type ReasonName = keyof typeof CODES;\n"
    return f"{head}\nexport const CODES = {{\n{rows}}} as const;\n\n{names}"


def _client() -> str:
    loops = [each for each in described() if each.loop]
    pages = sorted(_camel(each.loop.pages) for each in loops if each.loop)
    types = {each.payload for each in described()}
    types |= {each.loop.record for each in loops if each.loop}
    return "".join(
        [
            _HEAD.format(purpose="The client."),
            '\nimport { Account } from "./account.js";\n',
            'import { type CallOptions, Core, type LoopOptions } from "./core.js";\n',
            'import { CarrierRefusedError } from "./errors.js";\n',
            'import type { Answer, Cost, Day, Moment, Whole } from "./json.js";\n',
            'import type { Operation } from "./operation.js";\n',
            f'import {{ {", ".join(pages)} }} from "./paging.js";\n',
            "import type {\n",
            *(f"  {name},\n" for name in sorted(types)),
            '} from "./types.js";\n\n',
            *map(_constant, [*described(), *described_files()]),
            *map(_request_type, [*described(), *described_files()]),
            *(_request_type(each, is_loop=True) for each in loops),
            "\nconst PAID = {\n",
            *(f"  {_camel(each.method)}: {each.operation.name.upper()},\n" for each in described()),
            "};\n",
            "\n/** Calls the operations of a gateway. */\nexport class Client extends Core {\n",
            "  /** The account API: free of charge, for live tokens. */\n",
            "  readonly account = new Account((operation, values, options) =>\n",
            "    this.call(operation, values, options),\n  );\n\n",
            _cost_of(),
            "\n".join([*map(_method, described()), *map(_loop, loops)]),
            *(f"\n{_file_loop(each)}" for each in described_files()),
            "}\n",
        ]
    )


def _cost_of() -> str:
    return (
        "  /** What a call would cost now, without making it; throws what it would throw. */\n"
        "  costOf(\n    method: keyof typeof PAID,\n    request: object,\n"
        "    options: CallOptions = {},\n  ): Promise<Answer<Cost>> {\n"
        '    const headers = { ...options.headers, "X-Tollway-Dry-Run": "1" };\n'
        "    return this.call<Cost>(PAID[method], request, { ...options, headers });\n  }\n\n"
    )


def _account() -> str:
    endpoints = described(ACCOUNT_OPERATIONS)
    return "".join(
        [
            _HEAD.format(purpose="The account API."),
            "\nimport type {\n",
            *(f"  {name},\n" for name in sorted({each.payload for each in endpoints})),
            '} from "./account_types.js";\n',
            'import type { CallOptions } from "./core.js";\n',
            'import type { Answer, Day, Whole } from "./json.js";\n',
            'import type { Operation } from "./operation.js";\n\n',
            "type Call = <P>(\n  operation: Operation,\n  values: object,\n"
            "  options?: CallOptions,\n) => Promise<Answer<P>>;\n\n",
            *map(_constant, endpoints),
            *(_request_type(each) for each in endpoints if each.parameters),
            "\n/** What a caller can know and change of its account. */\nexport class Account {\n",
            "  constructor(private readonly call: Call) {}\n\n",
            "\n".join(map(_endpoint, endpoints)),
            "}\n",
        ]
    )


def _endpoint(each: Described) -> str:
    is_needed = any(one.required for one in each.parameters)
    request = f"    request: {_type_name(each)}{'' if is_needed else ' = {}'},\n"
    values = "request" if each.parameters else "{}"
    return (
        f"  /** {each.title}. */\n  {_camel(each.method)}(\n"
        f"{request if each.parameters else ''}    options?: CallOptions,\n"
        f"  ): Promise<Answer<{each.payload}>> {{\n"
        f"    return this.call<{each.payload}>({each.operation.name.upper()}, {values}, options);\n"
        "  }\n"
    )


def _constant(each: Described) -> str:
    it = each.operation
    repeats = needs = ""
    called_as = _camel(each.method)
    if required := [one.name for one in each.parameters if one.required]:
        needs = _wrapped_list("needs", required)
    if isinstance(it, AccountOperation):
        repeats = f'  repeats: "{"always" if it.method == "GET" else "unsent"}",\n'
        called_as = f"account.{called_as}"
    return (
        f"const {it.name.upper()}: Operation = {{\n"
        f'  name: "{it.charged_as}",\n  calledAs: "{called_as}",\n  method: "{it.method}",\n'
        f'  path: "{it.path}",\n  encoding: "{it.encoding.value}",\n{repeats}{needs}}};\n'
    )


def _wrapped_list(name: str, texts: list[str]) -> str:
    whole = f"  {name}: [{', '.join(_quoted(texts))}],\n"
    if len(whole) <= 101:
        return whole
    return f"  {name}: [\n" + "".join(f"    {each},\n" for each in _quoted(texts)) + "  ],\n"


def _quoted(texts: list[str]) -> list[str]:
    return [f'"{each}"' for each in texts]


def _type_name(each: Described, *, is_loop: bool = False) -> str:
    name = "".join(part.capitalize() for part in each.operation.name.split("_"))
    return f"{name}{'Filter' if is_loop else 'Request'}"


def _request_type(each: Described, *, is_loop: bool = False) -> str:
    parameters = loop_parameters(each) if is_loop else each.parameters
    lines = [f"\nexport interface {_type_name(each, is_loop=is_loop)} {{\n"]
    for one in parameters:
        text = f"{one.meaning.rstrip('.')}. Send {one.expected}."
        lines += _comment(textwrap.wrap(text, 92, break_on_hyphens=False), "  ")
        lines.append(f"  {one.name}{'' if one.required else '?'}: {_SENT[one.kind]};\n")
    return "".join([*lines, "}\n"])


def _method(each: Described) -> str:
    is_waybill = each.operation.name == "waybills"
    title = f"{each.title}."
    call = f"this.call<{each.payload}>({each.operation.name.upper()}, request, options)"
    body = f"    return {call};\n"
    if is_waybill:
        body = (
            f"    const result = await {call};\n"
            "    if (result.code !== 1) throw new CarrierRefusedError(result);\n"
            "    return result;\n"
        )
    return "".join(
        [
            *_comment(textwrap.wrap(f"{title} {_CARRIER_NOTE}" if is_waybill else title, 90), "  "),
            f"  {'async ' if is_waybill else ''}{_camel(each.method)}(\n"
            f"    request: {_type_name(each)},\n    options?: CallOptions,\n"
            f"  ): Promise<Answer<{each.payload}>> {{\n{body}  }}\n",
        ]
    )


def _loop(each: Described) -> str:
    assert each.loop is not None
    name, method = each.operation.name.upper(), _camel(each.loop.method)
    return "".join(
        [
            *_comment(textwrap.wrap(f"{each.title}: {_LOOP_NOTE}", 90), "  "),
            f"  {method}(\n    filter: {_type_name(each, is_loop=True)},\n"
            "    options?: LoopOptions,\n"
            f"  ): AsyncGenerator<{each.loop.record}, void, undefined> {{\n"
            f"    const ask = this.pages<{each.payload}>(\n"
            f'      {name},\n      "{method}",\n      filter,\n      options,\n    );\n'
            f"    return this.each({_camel(each.loop.pages)}(ask, filter));\n  }}\n",
        ]
    )


def _file_loop(each: Described) -> str:
    assert each.loop is not None
    text = f"{each.title}: all its records. {FILE_NOTE}"
    return "".join(
        [
            *_comment(textwrap.wrap(text, 90), "  "),
            f"  {_camel(each.method)}(\n    request: {_type_name(each)},\n"
            "    options?: CallOptions,\n"
            f"  ): AsyncGenerator<{each.loop.record}, void, undefined> {{\n"
            f"    const pages = this.file<{each.loop.record}>(\n"
            f'      {each.operation.name.upper()},\n      request,\n      "{each.loop.key}",\n'
            "      options,\n    );\n"
            "    return this.each(pages);\n  }\n",
        ]
    )


def _comment(lines: Sequence[str], indent: str) -> list[str]:
    if len(lines) == 1:
        line = f"{indent}/** {lines[0]} */"
        if len(line) <= _WIDTH:
            return [f"{line}\n"]
    return [f"{indent}/**\n", *(f"{indent} * {line}\n" for line in lines), f"{indent} */\n"]
