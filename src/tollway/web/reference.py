"""The API reference, made from the descriptors: every parameter, answer and code, in the reader's
language, with examples that can be tried in the sandbox."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tollway.account.endpoints import ACCOUNT_OPERATIONS
from tollway.consent.owners import Owner
from tollway.contract.decoding import declared_fields
from tollway.contract.operation import Operation, Unit
from tollway.contract.reasons import Reason
from tollway.contract.sample_refusal import sample_refusal
from tollway.operations.catalogue import BY_NAME, COMPANIONS, OPERATIONS, WITH_COMPANIONS
from tollway.operations.examples import EXAMPLES
from tollway.web.blocks import Block, Cell, Code, Column, Empty, Facts, Link, Table
from tollway.web.code_samples import samples_of
from tollway.web.pages import Page, Web
from tollway.web.sign_in import Visit
from tollway.web.wording import View, sentence

DOCS_PATH = "/docs"
_ENCODINGS = {
    "query": sentence("in the query string"),
    "form": sentence("as a form"),
    "json": sentence("as JSON"),
}


class SandboxRow(NamedTuple):
    """One thing that the sandbox has, in the reader's language."""

    kind: str
    parameter: str
    value: str
    note: str


class ReferencePages:
    """`/docs`, a page for each operation, and those of the codes and the sandbox."""

    def __init__(self, web: Web[Owner], base: str, sandbox: dict[str, list[SandboxRow]]) -> None:
        self._web = web
        self._base = base
        self._sandbox = sandbox

    def pages(self) -> dict[str, Page[Owner]]:
        """Every page by its path."""
        found: dict[str, Page[Owner]] = {
            DOCS_PATH: self._index,
            f"{DOCS_PATH}/codes": self._codes,
            f"{DOCS_PATH}/sandbox": self._sandbox_page,
        }
        for operation in (*WITH_COMPANIONS, *ACCOUNT_OPERATIONS):
            found[_path(operation)] = self._operation_page(operation)
        return found

    async def _index(self, _: Request, visit: Visit[Owner]) -> Response:
        say = visit.view.say
        first, example = OPERATIONS[0], EXAMPLES.get(OPERATIONS[0].name)
        blocks: list[Block] = [
            _list_of(say("Operations"), OPERATIONS, visit.view),
            _list_of(say("More calls on the same data"), COMPANIONS, visit.view),
            _list_of(say("Account API: free of charge"), ACCOUNT_OPERATIONS, visit.view),
        ]
        if example is not None:
            samples = samples_of(first, example.request(self._today()), self._base)
            blocks.insert(0, Code(say("Your first call, in the sandbox"), samples[:1]))
        blocks.insert(1, _headers(visit.view))
        return self._page(visit, say("API reference"), blocks, lead=say(_LEAD))

    async def _codes(self, _: Request, visit: Visit[Owner]) -> Response:
        say = visit.view.say
        table = _codes_of(list(Reason), OPERATIONS[0], visit.view)
        return self._page(visit, say("Codes"), [table])

    async def _sandbox_page(self, _: Request, visit: Visit[Owner]) -> Response:
        say = visit.view.say
        rows = [
            [
                Cell(each.kind),
                Cell(each.parameter, "mono"),
                Cell(each.value, "mono"),
                Cell(each.note),
            ]
            for each in self._sandbox[visit.view.language]
        ]
        contents = Table(
            [Column(say("Kind")), Column(say("Parameter")), Column(say("Value")), Column("")],
            rows,
            Empty(""),
            title=say("What the sandbox has"),
        )
        outcomes = [
            ("CREDITS_USED_UP", say("any reason, by its name")),
            ("slow:3000", say("an answer that takes so many milliseconds")),
        ]
        outcomes += [
            (name, say("for {operation}", operation=say(operation.title)))
            for operation in OPERATIONS
            for name in operation.sandbox_outcomes
        ]
        table = Table(
            [Column("X-Tollway-Outcome"), Column("")],
            [[Cell(name, "mono"), Cell(note)] for name, note in outcomes],
            Empty(""),
            title=say("Any outcome, on request"),
            links=[Link(say("All reasons"), f"{DOCS_PATH}/codes")],
        )
        return self._page(visit, say("Sandbox"), [contents, table], lead=say(_SANDBOX_LEAD))

    def _operation_page(self, operation: Operation) -> Page[Owner]:
        async def show(_: Request, visit: Visit[Owner]) -> Response:
            view, example = visit.view, EXAMPLES.get(operation.name)
            say = view.say
            blocks: list[Block] = [_facts_of(operation, view), _parameters_of(operation, view)]
            request = {} if example is None else dict(example.request(self._today()))
            if example is not None:
                blocks.append(Code(say("Examples"), samples_of(operation, request, self._base)))
            blocks.append(_fields_of(operation, view))
            if example is not None:
                answer = msgspec.json.format(msgspec.json.encode(example.answer)).decode()
                blocks.append(Code(say("Example of data"), [("JSON", answer)]))
            blocks.append(_codes_of(operation.reasons, operation, view))
            blocks.append(self._refusals_of(operation, view))
            return self._page(
                visit,
                view.say(operation.title),
                blocks,
                lead=say(operation.note) if operation.note else "",
                tried=operation if example is not None else None,
                request=request,
            )

        return show

    def _refusals_of(self, operation: Operation, view: View) -> Code:
        """The answer of one reason for each code."""
        at_s = int(self._web.now_s())
        answers: dict[str, str] = {}
        for reason in operation.reasons:
            refusal = sample_refusal(reason, operation)
            data: dict[str, object] = {}
            if reason is Reason.NOT_AUTHORIZED:
                data = {"authorize_url": f"{self._base}/authorize/…", "expires_at": at_s + 86_400}
            code, message = reason.value.code, refusal.message(view.language)
            envelope = {"code": code, "msg": message, "msec": 1, "time": at_s, "data": data}
            header = f"X-Tollway-Reason: {reason.name}"
            text = msgspec.json.format(msgspec.json.encode(envelope)).decode()
            answers.setdefault(str(code), f"{header}\n\n{text}")
        return Code(view.say("Answers of refused calls"), sorted(answers.items()))

    def _page(
        self,
        visit: Visit[Owner],
        title: str,
        blocks: Sequence[Block],
        *,
        lead: str = "",
        tried: Operation | None = None,
        request: dict[str, Any] | None = None,
    ) -> Response:
        say = visit.view.say
        crumbs = [] if visit.view.address == DOCS_PATH else [Link(say("API reference"), DOCS_PATH)]
        return self._web.render(
            "reference.html",
            visit,
            title=title,
            lead=lead,
            crumbs=crumbs,
            actions=[
                Link(say("Codes"), f"{DOCS_PATH}/codes"),
                Link(say("Sandbox"), f"{DOCS_PATH}/sandbox"),
                Link("OpenAPI", "/openapi.json"),
            ],
            shown=blocks,
            live_s=0,
            is_printable=False,
            tried=tried,
            fields=[] if tried is None else _tried_fields(tried, request or {}),
        )

    def _today(self) -> Any:
        return datetime.fromtimestamp(self._web.now_s(), self._web.zone).date()


_LEAD = sentence(
    "Every answer is the same JSON envelope: code, msg, msec, time, data. Code 0 means success, "
    "and only success is charged."
)
_SANDBOX_LEAD = sentence(
    "A test token uses the sandbox: the same checks, made-up data, nothing charged. A header makes "
    "it give any answer."
)


def _path(operation: Operation) -> str:
    return f"{DOCS_PATH}/{operation.name}"


class TriedField(NamedTuple):
    """A field of the form that tries an operation. A list is typed as JSON."""

    name: str
    value: str
    is_json: bool


def _tried_fields(operation: Operation, request: dict[str, Any]) -> list[TriedField]:
    found = []
    for name, field, _, _ in declared_fields(operation.request_type):
        is_json = field.kind.schema().get("type") == "array"
        value = request.get(name, "")
        if is_json and value:
            value = msgspec.json.encode(value).decode()
        found.append(TriedField(name, str(value), is_json))
    return found


def _list_of(title: str, operations: Sequence[Operation], view: View) -> Table:
    return Table(
        [Column(view.say("Operation")), Column(view.say("Address"))],
        [
            [
                Cell(view.say(each.title), href=_path(each)),
                Cell(f"{each.method} {each.path}", "mono"),
            ]
            for each in operations
        ],
        Empty(""),
        title=title,
    )


_HEADERS = (
    ("Authorization", sentence("Bearer and a token: of your account's page, or of your operator.")),
    ("Idempotency-Key", sentence("A retry with the same key within a day is not charged again.")),
    ("Accept-Language", sentence("zh for messages in Chinese.")),
    ("X-Tollway-Dry-Run", sentence("1: what the call would cost, without making it.")),
    ("X-Tollway-Outcome", sentence("With a test token: the answer that you want to see.")),
    ("X-Request-Id", sentence("In each answer: the id of the call, and of its receipt.")),
    ("X-Tollway-Reason", sentence("In the answer of a refused call: the name of the reason.")),
    ("RateLimit", sentence("In each answer: how many calls are left of this second.")),
    ("Retry-After", sentence("With code 202: after how many seconds to try again.")),
)


def _headers(view: View) -> Table:
    say = view.say
    return Table(
        [Column(say("Header")), Column(say("Meaning"))],
        [[Cell(name, "mono"), Cell(say(meaning))] for name, meaning in _HEADERS],
        Empty(""),
        title=say("Headers"),
    )


def _facts_of(operation: Operation, view: View) -> Facts:
    say = view.say
    facts = [
        (say("Address"), Cell(f"{operation.method} {operation.path}", "mono")),
        (say("Parameters"), Cell(say(_ENCODINGS[operation.encoding.value]))),
    ]
    if operation.default_price:
        in_calls = operation.unit is Unit.CALLS
        unit = say("calls") if in_calls else say("credits")
        # Accounts may have prices of their own.
        price = Cell(f"{operation.default_price} {unit}")
        facts.append((say("Price, unless agreed otherwise"), price))
    if operation.companion_of:
        its = BY_NAME[operation.companion_of]
        facts.append((say("Permitted, limited and paid as"), Cell(say(its.title), href=_path(its))))
    if operation.consent is not None:
        facts.append((say("Consent"), Cell(operation.consent.field, "mono")))
    return Facts(facts)


def _parameters_of(operation: Operation, view: View) -> Table:
    say = view.say
    rows = [
        [
            Cell(name, "mono"),
            Cell(say("yes") if required else say("no")),
            Cell(view.say(field.meaning)),
            Cell(field.kind.expected.fill(view.language, {})),
            Cell(", ".join(others), "mono"),
        ]
        for name, field, required, others in declared_fields(operation.request_type)
    ]
    titles = (
        say("Parameter"),
        say("Required"),
        say("Meaning"),
        say("Values"),
        say("Other spellings"),
    )
    return Table(
        [Column(title) for title in titles],
        rows,
        Empty(say("It takes no parameters.")),
        title=say("Parameters"),
    )


def _fields_of(operation: Operation, view: View) -> Table:
    rows = [
        [Cell(name, "mono"), Cell(kind, "mono")] for name, kind in _fields(operation.response_type)
    ]
    columns = [Column(view.say("Field")), Column(view.say("Type"))]
    return Table(columns, rows, Empty(""), title=view.say("Fields of data"))


# As JSON names them.
_TYPES: dict[object, str] = {int: "integer", float: "number", bool: "boolean", Any: "object"}


def _fields(kind: type[msgspec.Struct], prefix: str = "") -> list[tuple[str, str]]:
    found = []
    for name, hint in get_type_hints(kind).items():
        inner = next((each for each in get_args(hint) if each is not type(None)), hint)
        is_list = get_origin(hint) is list
        mark = "[]" if is_list else ""
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            found += _fields(inner, f"{prefix}{name}{mark}.")
            continue
        may_be_null = type(None) in get_args(hint)
        word = _TYPES.get(inner, "string") + ("[]" if is_list else "")
        found.append((f"{prefix}{name}", f"{word} | null" if may_be_null else word))
    return found


def _codes_of(reasons: Sequence[Reason], operation: Operation, view: View) -> Table:
    say = view.say
    return Table(
        [
            Column(say("Code"), "number"),
            Column(say("Reason")),
            Column(say("What happened, and what to do")),
            Column(say("HTTP status if mapped"), "number"),
        ],
        [
            [
                Cell(str(each.value.code), "number"),
                Cell(each.name, "mono"),
                Cell(sample_refusal(each, operation).message(view.language)),
                Cell(str(each.value.status), "number"),
            ]
            for each in sorted(reasons, key=lambda each: each.value.code)
        ],
        Empty(""),
        title=say("Codes"),
    )
