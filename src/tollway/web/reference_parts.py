"""The parts of the reference pages. For an operation: its parameters, the fields of its answers,
its codes, and the form that tries it. For webhooks: every event as it arrives, how to check its
signature, and when it is sent again."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from tollway import __version__
from tollway.contract.answer_fields import placed_fields
from tollway.contract.decoding import declared_fields
from tollway.contract.operation import Operation
from tollway.contract.reasons import Reason
from tollway.contract.sample_refusal import sample_data, sample_refusal
from tollway.operations.catalogue import BY_NAME
from tollway.web.blocks import Block, Cell, Code, Empty, Facts, Table
from tollway.web.code_samples import SIGNATURE_SAMPLES
from tollway.web.wording import View, amount, grouped, sentence, titles
from tollway.webhooks.delivery import RETRY_AFTER_S
from tollway.webhooks.events import EVENT_TYPES, EventType, event_example

DOCS_PATH = "/docs"
_ENCODINGS = {
    "query": sentence("in the query string"),
    "form": sentence("as a form"),
    "json": sentence("as JSON"),
}


# As files: those who call have no checkout to install from.
_PIP_INSTALL = f"pip install ./tollway_client-{__version__}-py3-none-any.whl"
_NPM_INSTALL = f"npm install ./tollway-client-{__version__}.tgz"
_PACKAGES_FROM = sentence(
    "Ask your operator for these two files: the packages are in no registry. Save the samples in "
    "JavaScript as .mjs."
)
_IN_A_BROWSER = sentence(
    "The gateway sends no CORS headers: a page can call it from the same origin only. Let your "
    "server call it, and keep live tokens there."
)


def page_of(operation: Operation) -> str:
    """The address of an operation's page."""
    return f"{DOCS_PATH}/{operation.name}"


class TriedField(NamedTuple):
    """A field of the form that tries an operation. Lists are typed as JSON."""

    name: str
    value: str
    is_json: bool


def tried_fields(operation: Operation, request: dict[str, Any]) -> list[TriedField]:
    found = []
    for name, field, _, _ in declared_fields(operation.request_type):
        is_json = field.kind.schema().get("type") == "array"
        value = request.get(name, "")
        if is_json and value:
            value = msgspec.json.encode(value).decode()
        found.append(TriedField(name, str(value), is_json))
    return found


def list_of(title: str, operations: Sequence[Operation], view: View) -> Table:
    return Table(
        [view.say("Operation"), view.say("Address")],
        [
            [
                Cell(view.say(each.title), href=page_of(each)),
                Cell(f"{each.method} {each.path}", "mono"),
            ]
            for each in operations
        ],
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


def headers(view: View) -> Table:
    say = view.say
    return Table(
        [say("Header"), say("Meaning")],
        [[Cell(name, "mono"), Cell(say(meaning))] for name, meaning in _HEADERS],
        title=say("Headers"),
    )


def packages(view: View) -> Facts:
    say = view.say
    return Facts(
        [
            ("Python", Cell(_PIP_INSTALL, "mono")),
            ("JavaScript", Cell(_NPM_INSTALL, "mono")),
            (say("Where from"), Cell(say(_PACKAGES_FROM))),
            (say("In a browser"), Cell(say(_IN_A_BROWSER))),
        ],
        title=say("Packages"),
    )


def facts_of(operation: Operation, view: View) -> Facts:
    say = view.say
    facts = [
        (say("Address"), Cell(f"{operation.method} {operation.path}", "mono")),
        (say("Parameters"), Cell(say(_ENCODINGS[operation.encoding.value]))),
    ]
    if operation.default_price:
        # Accounts may have prices of their own.
        price = Cell(amount(say, operation.balance_unit, operation.default_price))
        facts.append((say("Price, unless agreed otherwise"), price))
    if operation.belongs_to:
        its = BY_NAME[operation.belongs_to]
        facts.append(
            (say("Permitted, limited and paid as"), Cell(say(its.title), href=page_of(its)))
        )
    if operation.consent is not None:
        facts.append((say("Consent"), Cell(operation.consent.field, "mono")))
    return Facts(facts)


def parameters_of(operation: Operation, view: View) -> Table:
    say = view.say
    rows = [
        [
            Cell(name, "code"),
            Cell(say("yes") if required else say("no")),
            Cell(view.say(field.meaning)),
            Cell(field.kind.expected.said(view.language)),
            Cell(", ".join(others), "mono"),
        ]
        for name, field, required, others in declared_fields(operation.request_type)
    ]
    columns = titles(say, "Parameter", "Required", "Meaning", "Values", "Other spellings")
    return Table(columns, rows, Empty(say("It takes no parameters.")), title=say("Parameters"))


def fields_of(operation: Operation, view: View) -> Table:
    say = view.say
    rows = []
    for path, field in placed_fields(operation.response_type):
        meaning = "" if field.meaning is None else field.meaning.said(view.language)
        rows.append(
            [
                Cell(path, "mono"),
                Cell(field.json_type, "mono"),
                Cell(meaning),
                Cell(field.other_spelling or "", "mono"),
            ]
        )
    columns = titles(say, "Field", "Type", "Meaning", "Other spellings")
    title = say("Fields of each line") if operation.is_file else say("Fields of data")
    return Table(columns, rows, title=title)


def codes_of(reasons: Sequence[Reason], operations: Sequence[Operation], view: View) -> Table:
    """Each reason with its message, as worded for the first operation that has the reason."""
    say = view.say

    def message(reason: Reason) -> str:
        of = next((each for each in operations if reason in each.reasons), operations[0])
        return sample_refusal(reason, of).message(view.language)

    columns = titles(
        say, "Result code", "Reason", "What happened, and what to do", "HTTP status if mapped"
    )
    return Table(
        columns,
        [
            [
                Cell(str(each.value.code), "number"),
                Cell(each.name, "code"),
                Cell(message(each)),
                Cell(str(each.value.status), "number"),
            ]
            for each in sorted(reasons, key=lambda each: each.value.code)
        ],
        title=say("Codes"),
    )


def refusals_of(operation: Operation, view: View, base: str, at_s: int) -> Code:
    """The answer for each reason, as the sandbox gives it."""
    answers = []
    for reason in sorted(operation.reasons, key=lambda each: each.value.code):
        data = sample_data(reason, base, at_s)
        code = reason.value.code
        message = sample_refusal(reason, operation).message(view.language)
        envelope = {"code": code, "msg": message, "msec": 1, "time": at_s, "data": data}
        text = msgspec.json.format(msgspec.json.encode(envelope)).decode()
        answers.append((f"{code} {reason.name}", f"X-Tollway-Reason: {reason.name}\n\n{text}"))
    return Code(view.say("Answers of refused calls"), answers, is_folded=True)


EVENTS_LEAD = sentence(
    "The gateway sends a POST to your addresses when something happens to your account, by the "
    "rules of Standard Webhooks. The account API adds an address, and shows its secret once."
)
_RULES = (
    (
        sentence("Your answer"),
        sentence(
            "Any status from 200 to 299 within 15 seconds accepts an event. Redirects are not "
            "followed."
        ),
    ),
    (
        sentence("Sent again"),
        sentence(
            "After anything else it is sent again, after about {waits} seconds: {count} times in "
            "three days."
        ),
    ),
    (
        sentence("Twice"),
        sentence("An event can arrive twice, with the same webhook-id: store those handled."),
    ),
    (
        sentence("In order"),
        sentence(
            "Events of one subject, such as one consent, come in their order: the next one is not "
            "sent before the last one was accepted or given up."
        ),
    ),
    (
        sentence("Sending one once more"),
        sentence(
            "webhooks/deliveries lists events with their attempts for 30 days, and "
            "webhooks/redeliver sends one again."
        ),
    ),
    (sentence("A new secret"), sentence("After webhooks/rotate both secrets sign for a day.")),
    (
        sentence("Address"),
        sentence("It is https and public; your operator can allow internal hosts."),
    ),
)


def event_blocks(view: View) -> list[Block]:
    say = view.say
    waits = ", ".join(map(grouped, RETRY_AFTER_S))
    examples = [(name, msgspec.json.encode(event_example(name)).decode()) for name in EVENT_TYPES]
    rows = [
        [Cell(name, "mono"), Cell(say(each.reports)), Cell(_data_of(each), "mono")]
        for name, each in EVENT_TYPES.items()
    ]
    rules = [
        (say(name), Cell(say(rule, waits=waits, count=len(RETRY_AFTER_S)))) for name, rule in _RULES
    ]
    return [
        Table(titles(say, "Event", "Sent when", "Fields of data"), rows, title=say("Events")),
        Code(say("Each event as it comes"), examples, is_folded=True),
        Code(say("Check the signature"), SIGNATURE_SAMPLES),
        Facts(rules, title=say("What to expect")),
    ]


def _data_of(kind: EventType) -> str:
    return ", ".join(f"{name} | null" if name in kind.nullable else name for name in kind.example)
