"""An account's webhooks, managed by its own people: where events go, whether they arrive, and the
log of each. The acts are those of the account API, with its rules and daily limits."""

import asyncio
from collections.abc import Sequence
from functools import partial

from starlette.responses import Response

from tollway.ledger import LedgerError
from tollway.web.account_parts import state_notice
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Block, Cell, Empty, Facts, Field, Form, Link, Secret, Table
from tollway.web.caller.home import PATH, account_id, own_account
from tollway.web.lists import AFTER_ALL, BEGIN, before_number, list_part, page_part
from tollway.web.member_parts import check_signed_in
from tollway.web.page_errors import PageError
from tollway.web.pages import FORM_BYTES_MAX
from tollway.web.wording import sentence, titles
from tollway.webhooks.addresses import AddressError
from tollway.webhooks.delivery_log import Delivery, deliver_again, list_deliveries
from tollway.webhooks.endpoints import (
    ENDPOINTS_MAX,
    WebhookEndpoint,
    end_endpoint,
    list_endpoints,
    make_endpoint,
    rotate_secret,
)
from tollway.webhooks.events import send_test_event

WEBHOOKS = f"{PATH}/webhooks"
WEBHOOK = f"{PATH}/webhook"
_NOT_SHOWN_AGAIN = sentence("Copy it now: it is not shown again.")
_SAID = {
    "removed": sentence("The webhook is removed: nothing more is sent to it."),
    "tested": sentence("A test event is on its way to every webhook."),
}
_SAID_OF_ONE = {"again": sentence("The event is on its way again, with the same id.")}
_LEAD = sentence(
    "The gateway tells your server what happens to your account. Each event is signed with the "
    "secret of its webhook."
)


async def show_webhooks(context: Context, *first: Block) -> Response:
    say, account = context.say, await own_account(context)
    may_change = context.person.may_change and account.closed_at_s is None
    known = await list_endpoints(context.database, account.id)
    # The newest first, but those that have ended last.
    known.sort(key=lambda each: (each.ended_at_s is not None, -each.made_at_s))
    part = list_part(known, context.query(BEGIN), WEBHOOKS)
    none = say("There is no webhook yet.")
    columns = titles(say, "Address", "State", "Last event", "Added", "Secret changed")
    table = Table(
        [*columns, *(["", ""] if may_change else [])],
        await _rows(context, part.rows, may_change=may_change),
        Empty(say("There is no webhook yet: add the first below.") if may_change else none),
        older=part.next,
        newest=part.first,
    )
    blocks = [*state_notice(context, account), *context.reported(_SAID, *first), table]
    if may_change:
        if any(each.ended_at_s is None for each in known):
            blocks.append(_test_form(context))
        blocks.append(_add_form(context))
    actions = [Link(say("Events and signatures"), "/docs/events")]
    return context.page(say("Webhooks"), blocks, lead=say(_LEAD), actions=actions)


def _test_form(context: Context) -> Form:
    say = context.say
    return Form(
        f"{WEBHOOKS}/test",
        say("Send a test event"),
        title=say("Test"),
        note=say("Every webhook gets the event webhook.test; its log shows the answer."),
    )


def _add_form(context: Context) -> Form:
    say = context.say
    note = say(
        "An https address that the internet can reach. An account has at most {most} webhooks.",
        most=ENDPOINTS_MAX,
    )
    return Form(
        f"{WEBHOOKS}/add",
        say("Add"),
        [
            Field(
                "url",
                say("Address"),
                "url",
                is_required=True,
                # An address that was cut would be another one.
                length_max=FORM_BYTES_MAX,
                placeholder="https://shop.example/events",
            )
        ],
        title=say("Add a webhook"),
        note=note,
        is_line=True,
    )


async def _rows(
    context: Context, shown: Sequence[WebhookEndpoint], *, may_change: bool
) -> list[list[Cell]]:
    own, database = account_id(context.person), context.database
    newest = await asyncio.gather(
        *(list_deliveries(database, own, each.id, AFTER_ALL, 1) for each in shown)
    )
    return [
        _row(context, each, found[0] if found else None, may_change=may_change)
        for each, found in zip(shown, newest, strict=True)
    ]


def _row(
    context: Context, webhook: WebhookEndpoint, last: Delivery | None, *, may_change: bool
) -> list[Cell]:
    say = context.say
    acts = [Cell(""), Cell("")] if may_change else []
    if may_change and webhook.ended_at_s is None:
        rotate = context.question(
            f"{WEBHOOK}/rotate", webhook_id=webhook.id, rotated=_rotation_of(webhook)
        )
        remove = context.question(f"{WEBHOOK}/remove", webhook_id=webhook.id)
        acts = [
            Cell(say("New secret"), "time", rotate, of=webhook.url),
            Cell(say("Remove"), "time", remove, of=webhook.url),
        ]
    return [
        Cell(webhook.url, "mono", address(WEBHOOK, webhook_id=webhook.id)),
        _state(context, webhook, last),
        Cell(say("none yet")) if last is None else context.time(last.at_ms / 1000),
        context.time(webhook.made_at_s),
        _rotated(context, webhook),
        *acts,
    ]


def _rotated(context: Context, webhook: WebhookEndpoint) -> Cell:
    if webhook.rotated_at_s is None:
        return Cell(context.say("never"))
    return context.time(webhook.rotated_at_s)


def _state(context: Context, webhook: WebhookEndpoint, last: Delivery | None) -> Cell:
    """Whether a webhook is in use, and whether its last event arrived."""
    say = context.say
    if webhook.ended_at_s is not None:
        return Cell(say("not in use"), tone="bad")
    if last is None or last.state == "delivered" or not _has_failed(last):
        return Cell(say("active"), tone="good")
    if last.state == "failed":
        return Cell(say("last event failed"), tone="bad")
    return Cell(say("last event is retried"), tone="soon")


def _has_failed(delivery: Delivery) -> bool:
    """Whether an attempt has failed; the first one is counted when it begins."""
    return delivery.state == "failed" or delivery.attempts > 1 or delivery.status is not None


def _rotation_of(webhook: WebhookEndpoint) -> str:
    """When its secret was changed, as the question showed it. A form that is sent twice finds
    another time: a second new secret would end the one that the server still has."""
    return str(webhook.rotated_at_s or "")


async def _own_webhook(context: Context) -> WebhookEndpoint:
    """A webhook of this account; another account's webhook is "no such webhook"."""
    known = await list_endpoints(context.database, account_id(context.person))
    wanted = context.form.get("webhook_id", "")
    found = next((each for each in known if each.id == wanted), None)
    if found is None:
        raise _unknown()
    return found


async def _active_webhook(context: Context) -> WebhookEndpoint:
    webhook = await _own_webhook(context)
    if webhook.ended_at_s is not None:
        raise _unknown()
    return webhook


def _unknown() -> PageError:
    return PageError(404, "There is no such webhook", "It may be removed already.")


def _changed_meanwhile() -> PageError:
    return PageError(
        409,
        "The secret was changed meanwhile",
        "No other secret was made. The new one is shown only once: if it is lost, ask for another "
        "one on the page of webhooks.",
    )


async def _check_open(context: Context) -> None:
    if (await own_account(context)).closed_at_s is not None:
        raise PageError(409, "This account is closed", "It can only be read.")


async def add_act(context: Context) -> Response:
    say, own = context.say, account_id(context.person)
    url = context.form.get("url", "").strip()
    await _check_open(context)
    # Also the answer to the same form, sent again: its webhook would get every event twice.
    if any(
        each.url == url and each.ended_at_s is None
        for each in await list_endpoints(context.database, own)
    ):
        raise PageError(
            409,
            "There is a webhook with this address",
            "If its secret is lost, ask for a new one in the list.",
        ).at("url")
    try:
        async with context.web.without_slot():
            made = await make_endpoint(
                context.database,
                context.services.vault.sealer,
                context.services.addresses,
                context.runtime,
                own,
                url,
                context.day_start_s,
                partial(check_signed_in, context),
            )
    except AddressError as error:
        why = context.said(error.sentence)
        wrong = PageError(
            409,
            "This address cannot be used",
            "Events go to https addresses that the internet can reach: {problem}.",
            problem=why,
        )
        raise wrong.at("url") from None
    secret = Secret(say("The secret of the webhook"), made.secret, say(_NOT_SHOWN_AGAIN))
    return await show_webhooks(context, secret)


async def test_act(context: Context) -> Response:
    await _check_open(context)
    own = account_id(context.person)
    if not await send_test_event(context.database, context.runtime, own, context.day_start_s):
        raise PageError(409, "There is no webhook", "Add one first.")
    return context.go(WEBHOOKS, said="tested")


async def rotate_act(context: Context) -> Response:
    say, webhook = context.say, await _active_webhook(context)
    if context.form.get("rotated", "") != _rotation_of(webhook):
        raise _changed_meanwhile()
    question = say(
        "Make a new secret for {url}? The one before it signs too for a day.", url=webhook.url
    )
    context.confirm(question, say("New secret"))
    own = account_id(context.person)
    sealer, day_start_s = context.services.vault.sealer, context.day_start_s
    try:
        secret = await rotate_secret(
            context.database, sealer, context.runtime, own, webhook.id, day_start_s, seen=webhook
        )
    except LedgerError:
        raise _changed_meanwhile() from None
    if secret is None:
        raise _unknown()
    note = say("Both secrets sign for a day: give the new one to your server in that time.")
    shown = Secret(say("The new secret"), secret, say(" ").join((say(_NOT_SHOWN_AGAIN), note)))
    return await show_webhooks(context, shown)


async def remove_act(context: Context) -> Response:
    say, webhook = context.say, await _active_webhook(context)
    question = say(
        "Remove the webhook {url}? Nothing more is sent to it, also not what waits.",
        url=webhook.url,
    )
    context.confirm(question, say("Remove"))
    own = account_id(context.person)
    if not await end_endpoint(context.database, context.runtime, own, webhook.id):
        raise _unknown()
    return context.go(WEBHOOKS, said="removed")


async def show_webhook(context: Context) -> Response:
    """One webhook with its log."""
    say, own, webhook = context.say, account_id(context.person), await _own_webhook(context)
    before = before_number(context)
    found = await list_deliveries(context.database, own, webhook.id, before, PAGE_ROWS + 1)
    newest = found
    if before != AFTER_ALL:
        newest = await list_deliveries(context.database, own, webhook.id, AFTER_ALL, 1)
    part = page_part(
        found,
        context.query("before"),
        WEBHOOK,
        lambda last: last.number,
        "before",
        webhook_id=webhook.id,
    )
    may_change = context.person.may_change and webhook.ended_at_s is None
    columns = titles(
        say, "When", "Event", "Event id", "State", "Attempts", "Answer", "Next attempt"
    )
    log = Table(
        [*columns, *([""] if may_change else [])],
        [_delivery_row(context, webhook, each, may_change=may_change) for each in part.rows],
        Empty(say("No event in the last 30 days.")),
        title=say("Events of the last 30 days"),
        older=part.next,
        newest=part.first,
    )
    facts = [
        (say("Id"), Cell(webhook.id, "mono id")),
        (say("State"), _state(context, webhook, newest[0] if newest else None)),
        (say("Added"), context.time(webhook.made_at_s)),
        (say("Secret changed"), _rotated(context, webhook)),
        (say("Removed"), context.time(webhook.ended_at_s)),
    ]
    blocks: list[Block] = [*context.reported(_SAID_OF_ONE), Facts(facts, say("Details")), log]
    crumbs = [Link(say("Webhooks"), WEBHOOKS)]
    return context.page(webhook.url, blocks, crumbs=crumbs)


def _delivery_row(
    context: Context, webhook: WebhookEndpoint, delivery: Delivery, *, may_change: bool
) -> list[Cell]:
    say, is_waiting = context.say, delivery.state == "waiting"
    states = {
        "delivered": Cell(say("delivered"), tone="good"),
        "failed": Cell(say("failed"), tone="bad"),
        "waiting": Cell(say("waiting"), tone="soon"),
    }
    answer = "" if delivery.status is None else f"HTTP {delivery.status}"
    if not answer and _has_failed(delivery):
        answer = say("no answer")
    again = context.question(f"{WEBHOOK}/again", webhook_id=webhook.id, event_id=delivery.event_id)
    return [
        context.log_time(delivery.at_ms / 1000),
        Cell(delivery.type, "mono"),
        Cell(delivery.event_id, "mono"),
        states[delivery.state],
        context.number(delivery.attempts),
        Cell(answer),
        context.time(delivery.next_at_ms / 1000 if is_waiting else None),
        *([Cell(say("Send again"), "time", again, of=delivery.event_id)] if may_change else []),
    ]


async def again_act(context: Context) -> Response:
    say, webhook = context.say, await _active_webhook(context)
    event_id, own = context.form.get("event_id", ""), account_id(context.person)
    question = say("Send the event {event} to {url} again?", event=event_id, url=webhook.url)
    context.confirm(question, say("Send again"), is_harmless=True)
    if not await deliver_again(
        context.database, own, webhook.id, event_id, context.runtime.at_ms()
    ):
        raise PageError(404, "There is no such event", "The log has those of the last 30 days.")
    return context.go(WEBHOOK, webhook_id=webhook.id, said="again")
