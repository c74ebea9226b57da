"""Product analysis for people: what the API answers for a product and a day, as pictures.

A page calls through the same pipeline as a program, so an answer costs the same. A form shows the
price and pays; the gateway then keeps the answer for a day under an idempotency key. From there the
page shows it for free: it can be reloaded, and shared within the account.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec
from starlette.responses import Response

from tollway.ledger.entries import amounts_by_unit
from tollway.ledger.idempotency import OF_PAGES, find_kept, kept_keys
from tollway.operations.examples import EXAMPLES
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS, ProductAnalysis
from tollway.web.account_parts import prices_of, state_notice
from tollway.web.area import Context, address
from tollway.web.blocks import Block, Cell, Empty, Field, Form, Link, Notice, Table
from tollway.web.caller.analysis_pictures import DayAnswer, pictures
from tollway.web.caller.home import (
    PATH,
    PRICE_RAISED,
    account_id,
    own_account,
    shown_cost,
)
from tollway.web.page_calls import PageAnswer
from tollway.web.page_errors import PageError
from tollway.web.wording import amount, listed, sentence, titles

ANALYSIS = f"{PATH}/analysis"
_KEY = f"{OF_PAGES}product_analysis:"
_KEY_MAX = 200
_COST = "cost"
_HASHED = "~"
# An answer that is about to expire counts as expired: viewing it must never pay for it again.
_MARGIN_MS = 60_000
_RECENT = 20
_MAY_NOT_PAY = sentence(
    "Your role pays for nothing: a developer or an owner of the account can. What they asked for "
    "in the last 24 hours is shown to you too."
)


class Wanted(NamedTuple):
    """What the address asks for. `asked` is the time of the request, if that covered today: the
    answer for today still changes."""

    product: str
    days: tuple[date, ...]
    asked: str
    is_test: bool

    @property
    def href(self) -> str:
        return address(ANALYSIS, **self.query)

    @property
    def query(self) -> dict[str, str]:
        other = self.days[1].isoformat() if len(self.days) > 1 else ""
        return {
            "product": self.product,
            "day": self.days[0].isoformat() if self.days else "",
            "other": other,
            "asked": self.asked,
            "data": "sandbox" if self.is_test else "",
        }

    def keys(self, day: date) -> list[str]:
        """The keys that may hold the answer for a day: first the one from before the day was over,
        which the address still names after midnight, then the one for the whole day."""
        return [self._key(day, asked) for asked in dict.fromkeys((self.asked, ""))]

    def new_key(self, day: date, today: date) -> str:
        """The key under which to pay for the answer for a day now."""
        return self._key(day, self.asked if day == today else "")

    def _key(self, day: date, asked: str) -> str:
        product = quote(self.product, safe="")
        if len(product) > _KEY_MAX:
            product = _HASHED + hashlib.sha256(self.product.encode()).hexdigest()
        return f"{_KEY}{day.isoformat()}:{asked}:{product}"


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise PageError(400, "This is not a day", "Write it as 2026-01-31.") from None


def _wanted(context: Context) -> Wanted:
    """Reads the request from the address, or from the form that pays."""
    values = {name: context.form.get(name, "").strip() for name in ("product", "asked", "data")}
    days = [_day(context.form.get(name, "").strip()) for name in ("day", "other")]
    product = values["product"]
    if len(product) > 64 or not product.isprintable():
        product = ""
    asked = values["asked"] if values["asked"].isdigit() and len(values["asked"]) == 4 else ""
    chosen = tuple(dict.fromkeys(each for each in days if each is not None))
    return Wanted(product, chosen, asked, values["data"] == "sandbox")


async def show_analysis(context: Context) -> Response:
    wanted = _wanted(context)
    if not wanted.product or not wanted.days:
        closed = state_notice(context, await own_account(context))
        first: list[Block] = [*closed] if closed else [_form(context, wanted)]
        first.append(await _paid_for(context))
        return context.page(context.say("Product analysis"), first)
    kept = await _kept(context, wanted)
    unpaid = _unpaid(wanted, kept)
    if unpaid:
        return await _offer(context, wanted, unpaid)
    answers = await _ask(context, wanted, kept)
    return _shown(context, wanted, answers)


async def pay_act(context: Context) -> Response:
    """Pays for every day, and redirects to the page that shows the answers."""
    wanted = _wanted(context)
    if not wanted.product or not wanted.days:
        return context.go(ANALYSIS)
    now = context.web.now()
    if now.date() in wanted.days:
        wanted = wanted._replace(asked=now.strftime("%H%M"))
    kept = await _kept(context, wanted)
    unpaid = _unpaid(wanted, kept)
    price = (await prices_of(context, account_id(context.person)))[PRODUCT_ANALYSIS.name] or 0
    # As late as possible: only a price raised between this check and the call goes unseen.
    if unpaid and price * len(unpaid) > shown_cost(context, _COST):
        return await _offer(context, wanted, unpaid, is_again=True)
    answers = await _ask(context, wanted, kept)
    refused = next((each for each in answers if each.code), None)
    return _refused(context, wanted, refused) if refused else context.go(ANALYSIS, **wanted.query)


async def _kept(context: Context, wanted: Wanted) -> dict[date, str]:
    """The days that the account has paid for and whose answers are kept, each with its key."""
    own, now_ms = account_id(context.person), int(context.now_s * 1000) + _MARGIN_MS
    kept: dict[date, str] = {}
    for day in () if wanted.is_test else wanted.days:
        for key in wanted.keys(day):
            if await find_kept(context.database, own, key, now_ms) is not None:
                kept[day] = key
                break
    return kept


def _unpaid(wanted: Wanted, kept: Mapping[date, str]) -> list[date]:
    return [] if wanted.is_test else [day for day in wanted.days if day not in kept]


async def _ask(context: Context, wanted: Wanted, kept: Mapping[date, str]) -> list[PageAnswer]:
    today, answers = context.web.now().date(), []
    async with context.web.without_slot():
        for day in wanted.days:
            answers.append(
                await context.services.calls(
                    context.runtime,
                    account_id(context.person),
                    PRODUCT_ANALYSIS,
                    {"product_id": wanted.product, "query_date": day.isoformat()},
                    kind="test" if wanted.is_test else "live",
                    language=context.visit.view.language,
                    key="" if wanted.is_test else kept.get(day) or wanted.new_key(day, today),
                )
            )
            if answers[-1].code:
                break
    return answers


def _shown(context: Context, wanted: Wanted, answers: Sequence[PageAnswer]) -> Response:
    say = context.say
    refused = next((each for each in answers if each.code), None)
    if refused is not None:
        return _refused(context, wanted, refused)
    shown = [
        DayAnswer(day, msgspec.convert(answer.data, ProductAnalysis))
        for day, answer in zip(wanted.days, answers, strict=True)
    ]
    first = shown[0].answer
    days = say("{first} and {second}", first=shown[0].name, second=shown[-1].name)
    lead = f"{first.shopName} · {first.itemId} · {days if shown[1:] else shown[0].name}"
    blocks: list[Block] = []
    if wanted.is_test:
        text = say("This is the sandbox: the figures are made up, and nothing was charged.")
        blocks.append(Notice(text))
    blocks += pictures(context, shown)
    if not wanted.is_test:
        blocks.append(_receipts(context, shown, answers))
    blocks.append(_form(context, wanted, is_folded=True))
    return context.page(
        first.itemName,
        blocks,
        lead=lead,
        crumbs=[Link(say("Product analysis"), ANALYSIS)],
        is_printable=True,
    )


def _receipts(context: Context, shown: Sequence[DayAnswer], answers: Sequence[PageAnswer]) -> Block:
    say = context.say
    rows = [
        [Cell(day.name), Cell(each.paid_by, "mono", address(f"{PATH}/request", id=each.paid_by))]
        for day, each in zip(shown, answers, strict=True)
    ]
    note = say("Each answer was paid for once, and is shown again for a day without a charge.")
    return Table([say("Day"), say("Receipt")], rows, note=note)


def _refused(context: Context, wanted: Wanted, answer: PageAnswer) -> Response:
    say = context.say
    receipt = Link(say("Receipt"), address(f"{PATH}/request", id=answer.paid_by))
    text = say("{title}: {text}", title=answer.code, text=answer.msg)
    blocks: list[Block] = [
        Notice(text, "bad", None if wanted.is_test else receipt),
        _form(context, wanted),
    ]
    return _page(context, blocks, 409)


async def _offer(
    context: Context, wanted: Wanted, unpaid: Sequence[date], *, is_again: bool = False
) -> Response:
    """Shows the cost before anything is paid for."""
    say, own, unit = context.say, account_id(context.person), PRODUCT_ANALYSIS.balance_unit
    price = (await prices_of(context, own))[PRODUCT_ANALYSIS.name]
    if price is None:
        text = say("Your account may not call this operation: ask the operator to enable it.")
        blocks: list[Block] = [Notice(text, "soon"), _form(context, wanted)]
        return _page(context, blocks)
    balances = await amounts_by_unit(context.database, own)
    cost = price * len(unpaid)
    note = say(
        "This asks for {days} and costs {price} if it succeeds. The balance is {balance}.",
        days=listed(say, (each.isoformat() for each in unpaid)),
        price=amount(say, unit, cost),
        balance=amount(say, unit, balances.get(unit, 0)),
    )
    if is_again:
        note = say(" ").join((say(PRICE_RAISED), note))
    hidden = {name: value for name, value in wanted.query.items() if value and name != "asked"}
    hidden[_COST] = str(cost)
    paying = Form(
        f"{ANALYSIS}/pay",
        say("Ask for {price}", price=amount(say, unit, cost)),
        hidden=hidden,
        title=say("{title}: {text}", title=say("Product id"), text=wanted.product),
        note=note,
    )
    may_not = Notice(say(_MAY_NOT_PAY), "soon")
    shown: list[Block] = [paying if context.person.may_change else may_not]
    shown.append(_form(context, wanted, is_folded=True))
    return _page(context, shown)


def _page(context: Context, blocks: Sequence[Block], status: int = 200) -> Response:
    title = context.say("Product analysis")
    return context.page(title, blocks, status=status, crumbs=[Link(title, ANALYSIS)])


def _form(context: Context, wanted: Wanted, *, is_folded: bool = False) -> Form:
    say, today = context.say, context.web.now().date()
    example = dict(EXAMPLES[PRODUCT_ANALYSIS.name].request(today))
    days = [each.isoformat() for each in wanted.days or (today - timedelta(days=1),)]
    return Form(
        ANALYSIS,
        say("Show"),
        [
            Field(
                "product",
                say("Product id"),
                value=wanted.product,
                is_required=True,
                length_max=64,
                placeholder=str(example["product_id"]),
            ),
            Field("day", say("Day"), "date", days[0], is_required=True),
            Field("other", say("Compare with"), "date", days[1] if days[1:] else ""),
            Field(
                "data",
                say("Data"),
                "select",
                "sandbox" if wanted.is_test else "",
                [("", say("live, paid")), ("sandbox", say("sandbox, made up, free"))],
            ),
        ],
        title=say("Another product or day") if is_folded else say("A product and a day"),
        note="" if is_folded else say("The price is shown before anything is charged."),
        is_line=True,
        is_folded=is_folded,
        method="get",
    )


async def _paid_for(context: Context) -> Table:
    """The answers paid for on this page that are still kept, to view again."""
    say = context.say
    now_ms = int(context.now_s * 1000) + _MARGIN_MS
    kept = await kept_keys(context.database, account_id(context.person), _KEY, now_ms, _RECENT)
    rows = []
    for key, request_id, at_ms in kept:
        day, asked, product = key.removeprefix(_KEY).split(":", 2)
        if product.startswith(_HASHED):
            continue
        wanted = Wanted(unquote(product), (date.fromisoformat(day),), asked, is_test=False)
        rows.append(
            [
                Cell(wanted.product, "mono", wanted.href),
                Cell(day),
                context.time(at_ms / 1000),
                context.receipt(request_id),
            ]
        )
    example = dict(EXAMPLES[PRODUCT_ANALYSIS.name].request(context.web.now().date()))
    sample = address(
        ANALYSIS, product=example["product_id"], day=example["query_date"], data="sandbox"
    )
    return Table(
        titles(say, "Product id", "Day", "Asked for", "Receipt"),
        rows,
        Empty(
            say("Nothing was asked for in the last 24 hours."),
            Link(say("See one from the sandbox, free of charge"), sample),
        ),
        title=say("Paid for, and shown again without a charge"),
    )
