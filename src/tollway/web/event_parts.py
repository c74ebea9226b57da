"""The page of the reference about webhooks: every event as it comes, how its signature is checked,
and when it is sent again."""

import msgspec

from tollway.web.blocks import Block, Cell, Code, Column, Empty, Facts, Table
from tollway.web.code_samples import SIGNATURE_SAMPLES
from tollway.web.wording import View, grouped, sentence
from tollway.webhooks.delivering import RETRY_AFTER_S
from tollway.webhooks.events import EVENT_TYPES

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
    (
        sentence("A new secret"),
        sentence("After webhooks/rotate both secrets sign for a day."),
    ),
    (
        sentence("Address"),
        sentence("It is https and public; your operator can allow internal hosts."),
    ),
)


def event_blocks(view: View) -> list[Block]:
    say = view.say
    waits = ", ".join(map(grouped, RETRY_AFTER_S))
    rows = [
        [Cell(name, "mono"), Cell(say(each.reports)), Cell(", ".join(each.example), "mono")]
        for name, each in EVENT_TYPES.items()
    ]
    titles = (say("Event"), say("When"), say("Fields of data"))
    rules = [
        (say(name), Cell(say(rule, waits=waits, count=len(RETRY_AFTER_S)))) for name, rule in _RULES
    ]
    return [
        Table([Column(each) for each in titles], rows, Empty(""), title=say("Events")),
        Code(say("Each event as it comes"), _examples(), is_folded=True),
        Code(say("Check the signature"), SIGNATURE_SAMPLES),
        Facts(rules, title=say("What to expect")),
    ]


def _examples() -> list[tuple[str, str]]:
    found = []
    for name, each in EVENT_TYPES.items():
        content = {"type": name, "timestamp": "2026-01-31T04:00:00.000Z", "data": each.example}
        found.append((name, msgspec.json.encode(content).decode()))
    return found
