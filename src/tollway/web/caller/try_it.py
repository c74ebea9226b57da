"""Tries an operation from a page: a form made from its descriptor, the same call as code beside it,
and the answer with its receipt. It uses the sandbox unless the reader chooses live data; before a
live call, the page shows the price and asks."""

import re
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from tollway.contract.decoding import as_sent, declared_fields
from tollway.contract.operation import Operation
from tollway.ledger.idempotency import OF_PAGES, find_kept
from tollway.ledger.receipts import find_receipt
from tollway.operations.account_api.examples import ALL_EXAMPLES
from tollway.operations.catalogue import ALL_OPERATIONS
from tollway.web.account_parts import state_notice
from tollway.web.area import Context, address
from tollway.web.blocks import Block, Code, Columns, Field, Form, Link, Notice
from tollway.web.caller.home import (
    PATH,
    PRICE_RAISED,
    account_id,
    own_account,
    shown_cost,
)
from tollway.web.code_samples import samples_of
from tollway.web.page_calls import PageAnswer
from tollway.web.page_errors import PageError
from tollway.web.reference_parts import page_of, tried_fields
from tollway.web.wording import CAME_FROM, amount, grouped, sentence

TRY = f"{PATH}/try"
# Operations that answer with an envelope; files are for programs to fetch.
_OFFERED = {each.name: each for each in ALL_OPERATIONS if not each.is_file}
_LANGUAGES = 3
_SHOWN_MAX = 100_000
_TEXT_MAX, _JSON_MAX = 300, 9000
# Fields of the form that are not parameters; no parameter has this prefix.
_OPERATION, _DATA, _OUTCOME = "try_operation", "try_data", "try_outcome"
# What the question carries: the idempotency key for the call, and the cost that it showed.
_KEY, _COST = "try_key", "try_cost"
# Fields that every form on a page has.
_OF_PAGE = ("form_token", CAME_FROM)
_MADE_KEY = re.compile("[0-9a-f]{32}")
_LEAD = sentence(
    "Send a call from here and see its answer. The sandbox has made-up data and costs nothing; "
    "before a call on live data is sent, its price is shown."
)


def _operation(context: Context) -> Operation:
    wanted = context.query("operation") or context.form.get(_OPERATION, "")
    found = _OFFERED.get(wanted or next(iter(_OFFERED)))
    if found is None:
        raise PageError(404, "There is no such operation", "Choose one of the list.")
    return found


async def show_try(context: Context) -> Response:
    if closed := state_notice(context, await own_account(context)):
        return context.page(context.say("Try an operation"), closed)
    operation = _operation(context)
    today = context.web.now().date()
    example = ALL_EXAMPLES.get(operation.name)
    request = {} if example is None else dict(example.request(today))
    return _page(context, operation, request)


async def change_act(context: Context) -> Response:
    """Back from the question to the form, with what was typed. Sends no call."""
    operation = _operation(context)
    return _page(context, operation, _typed(context, operation))


def _page(
    context: Context, operation: Operation, request: Mapping[str, Any], *first: Block
) -> Response:
    say = context.say
    base = context.services.settings.public_address
    samples = samples_of(operation, request, base, is_live=_is_live(context))
    blocks: list[Block] = [_choice(context, operation), *first]
    if context.person.may_change:
        form = _form(context, operation, request)
        blocks.append(Columns([form, Code(say("The same call"), samples[:_LANGUAGES])]))
    else:
        blocks.append(Notice(say("Your role sends no calls. The same call in code."), "soon"))
        blocks.append(Code(say("The same call"), samples[:_LANGUAGES]))
    actions = [
        Link(say("API reference"), page_of(operation)),
        Link(say("Sandbox"), "/docs/sandbox"),
    ]
    return context.page(say("Try an operation"), blocks, lead=say(_LEAD), actions=actions)


def _choice(context: Context, operation: Operation) -> Form:
    say = context.say
    choices = [(each.name, say(each.title)) for each in _OFFERED.values()]
    return Form(
        TRY,
        say("Show"),
        [Field("operation", say("Operation"), "select", operation.name, choices)],
        is_line=True,
        method="get",
    )


def _form(context: Context, operation: Operation, request: Mapping[str, Any]) -> Form:
    say = context.say
    declared = declared_fields(operation.request_type)
    fields = [
        Field(
            tried.name,
            tried.name,
            "textarea" if tried.is_json else "text",
            tried.value,
            help=f"{say(of.field.meaning)}{' ' + say('As JSON.') if tried.is_json else ''}",
            is_required=of.required,
            length_max=_JSON_MAX if tried.is_json else _TEXT_MAX,
        )
        for tried, of in zip(tried_fields(operation, dict(request)), declared, strict=True)
    ]
    data = [("sandbox", say("sandbox, made up, free")), ("live", say("live, paid"))]
    fields += [
        Field(_DATA, say("Data"), "select", "live" if _is_live(context) else "sandbox", data),
        Field(
            _OUTCOME,
            "X-Tollway-Outcome",
            value=context.form.get(_OUTCOME, ""),
            help=say("Sandbox only: the answer that you want to see, such as CREDITS_USED_UP."),
            length_max=64,
        ),
    ]
    return Form(
        f"{TRY}/send",
        say("Send"),
        fields,
        hidden={_OPERATION: operation.name},
        title=f"{operation.method} {operation.path}",
    )


def _is_live(context: Context) -> bool:
    return context.form.get(_DATA) == "live"


def _typed(context: Context, operation: Operation) -> dict[str, Any]:
    """The parameters as a program would send them, without empty ones."""
    values: dict[str, Any] = {}
    for name, field, _, _ in declared_fields(operation.request_type):
        text = context.form.get(name, "").strip()
        if not text:
            continue
        is_json = field.kind.schema().get("type") == "array"
        most = _JSON_MAX if is_json else _TEXT_MAX
        # The page of the answer is many times as long.
        if len(text) > most:
            raise PageError(
                400,
                "This is too long",
                "{field} can have {most} characters at most.",
                field=name,
                most=grouped(most),
            ).at(name)
        values[name] = as_sent(field, text)
        if is_json:
            try:
                values[name] = msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError):
                wrong = PageError(400, "This is not JSON", "Check the field {field}.", field=name)
                raise wrong.at(name) from None
    return values


async def send_act(context: Context) -> Response:
    operation = _operation(context)
    values = _typed(context, operation)
    if not _is_live(context):
        return _answered(context, operation, values, await _send(context, operation, values))
    made = context.form.get(_KEY, "")
    is_asked = context.form.get("sure") == "yes" and _MADE_KEY.fullmatch(made) is not None
    # The key makes the call idempotent: a form that is sent twice is charged once.
    key = f"{OF_PAGES}try:{made}"
    own, now_ms = account_id(context.person), int(context.now_s * 1000)
    is_sent_again = is_asked and await find_kept(context.database, own, key, now_ms) is not None
    if not is_sent_again:
        # As late as possible: only a price raised between this check and the call goes unseen.
        dry = await _send(context, operation, values, is_dry_run=True)
        if dry.code:
            return _answered(context, operation, values, dry)
        if not is_asked or dry.data["cost"] > shown_cost(context, _COST):
            return _ask(context, operation, dry, is_again=is_asked)
    answer = await _send(context, operation, values, key=key)
    if answer.is_repetition and not is_sent_again:
        # For example, the order already had a waybill: this call cost nothing.
        return _answered(context, operation, values, answer)
    return _answered(context, operation, values, answer, await _charged(context, answer))


async def _charged(context: Context, answer: PageAnswer) -> str:
    """The cost of a live call, from its receipt."""
    receipt = await find_receipt(context.database, account_id(context.person), answer.paid_by)
    if receipt is None or receipt.unit is None:
        return ""
    return amount(context.say, receipt.unit, receipt.amount)


def _ask(context: Context, operation: Operation, dry: PageAnswer, *, is_again: bool) -> Response:
    """Asks whether to send the call, with its cost from the dry run."""
    say, unit, cost = context.say, operation.balance_unit, dry.data["cost"]
    price = amount(say, unit, cost)
    question = say(
        "{operation} costs {price} if it succeeds. The balance is {balance}.",
        operation=say(operation.title),
        price=price,
        balance=amount(say, unit, dry.data["left"]),
    )
    if is_again:
        question = say(" ").join((say(PRICE_RAISED), question))
    sent = {name: text for name, text in context.form.items() if name not in _OF_PAGE}
    shown = {_KEY: secrets.token_hex(16), _COST: str(cost), "sure": "yes"}
    form = Form(
        f"{TRY}/send",
        say("Send for {price}", price=price),
        hidden={**sent, **shown},
        note=question,
        back_with=Link(say("Go back"), address(TRY, operation=operation.name)),
    )
    return context.page(say("Please confirm"), [form])


async def _send(
    context: Context,
    operation: Operation,
    values: Mapping[str, Any],
    *,
    key: str = "",
    is_dry_run: bool = False,
) -> PageAnswer:
    outcome = context.form.get(_OUTCOME, "").strip()
    dry_run = f"{OF_PAGES}1" if is_dry_run else ""
    headers = {"x-tollway-outcome": outcome, "x-tollway-dry-run": dry_run}
    if not outcome.isascii() or not outcome.isprintable():
        wrong = PageError(400, "There is no such outcome", "Enter a reason such as THROTTLED.")
        raise wrong.at(_OUTCOME)
    async with context.web.without_slot():
        return await context.services.calls(
            context.runtime,
            account_id(context.person),
            operation,
            values,
            kind="live" if _is_live(context) else "test",
            language=context.visit.view.language,
            key=key,
            headers=headers,
        )


def _answered(
    context: Context,
    operation: Operation,
    values: Mapping[str, Any],
    answer: PageAnswer,
    charged: str = "",
) -> Response:
    say = context.say
    receipt = Link(say("Receipt"), address(f"{PATH}/request", id=answer.paid_by))
    if answer.code:
        said = Notice(say("{title}: {text}", title=answer.code, text=answer.msg), "bad", receipt)
    elif charged:
        said = Notice(say("It succeeded and cost {price}.", price=charged), "good", receipt)
    elif answer.is_repetition and _is_live(context):
        said = Notice(say("It succeeded. An earlier call has paid for it."), "good", receipt)
    elif _is_live(context):
        said = Notice(say("It succeeded."), "good", receipt)
    else:
        said = Notice(say("It succeeded in the sandbox: nothing was charged."), "good", receipt)
    shown: list[Block] = [said]
    if link := answer.data.get("authorize_url"):
        asked = say("Its owner signs in there, sees who asks and for what, and decides.")
        shown.append(Notice(asked, link=Link(say("Open the consent page"), link)))
    text = msgspec.json.format(msgspec.json.encode(answer.data)).decode()
    name = "JSON"
    if len(text) > _SHOWN_MAX:
        text, name = text[:_SHOWN_MAX], say("JSON, its first {count} characters", count=_SHOWN_MAX)
    shown.append(Code(say("The answer's data"), [(name, text)]))
    return _page(context, operation, values, *shown)
