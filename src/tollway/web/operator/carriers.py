"""Carriers, their pools of numbers, and waybills with their labels: printed again, cancelled."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from starlette.responses import Response

from tollway.carriers.carrier_links import list_links
from tollway.carriers.carriers import AreaKind, Carrier, ServiceArea, list_carriers
from tollway.carriers.labels.fonts import find_fonts
from tollway.carriers.labels.formats import WRITERS
from tollway.carriers.labels.layout import style_of
from tollway.carriers.labels.print_data import label_of
from tollway.carriers.pool_levels import numbers_a_day
from tollway.carriers.pools import Pool, add_numbers, list_pools
from tollway.carriers.waybills import (
    StoredWaybill,
    Waybill,
    cancel_waybill,
    find_by_number,
    list_waybills,
    print_waybills,
)
from tollway.ledger.holds import open_holds
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Block, Cell, Columns, Facts, Field, Form, Link, Notice, Picture
from tollway.web.operator.attention import FEW_NUMBERS, SOON_DAYS
from tollway.web.operator.tables import plain_table, record
from tollway.web.wording import grouped, sentence, sentences

PATH = "/operator/carriers"
CARRIER = "/operator/carrier"
WAYBILL = "/operator/waybill"
_REJECTED_SHOWN = 20
_YEARS_DAYS = 1000
_SECONDS = re.compile(r"[0-9]{1,12}")
STATES = {
    "issued": ("good", sentence("issued")),
    "pending": ("soon", sentence("pending")),
    "refused": ("bad", sentence("refused")),
    "cancelled": ("", sentence("cancelled")),
}


async def show_carriers(context: Context) -> Response:
    return await _carriers_page(context)


async def _carriers_page(context: Context, *first: Block) -> Response:
    say, database = context.say, context.database
    carriers = await list_carriers(database)
    pools = await list_pools(database)
    known = await _carriers_table(context, carriers, pools)
    own = [
        [Cell(each.wp_code, "mono"), Cell(each.owner_id or ""), *_pool_cells(context, each, None)]
        for each in pools
        if each.owner_id is not None
    ]
    own_titles = sentences("Carrier", "Pool of", "Left", "Taken", "Lasts until")
    of_shops = [plain_table(context, own_titles, own, "", say("Pools of single shops"))]
    forms = Columns([_numbers_form(context, carriers), carrier_form(context, None)])
    blocks = [*first, known, *(of_shops if own else ()), forms]
    return context.page(
        say("Carriers"), [*blocks, *await _holds(context), await _waybills(context)]
    )


async def _waybills(context: Context) -> Block:
    say, before = context.say, context.query("before")
    asked_at_s, _, object_id = before.partition(":")
    place = {"before": (int(asked_at_s), object_id)} if _SECONDS.fullmatch(asked_at_s) else {}
    found = await list_waybills(context.database, None, PAGE_ROWS + 1, **place)
    table = plain_table(
        context,
        sentences("When", "Carrier", "Number", "State", "Order", "Shop or user"),
        [_waybill_row(context, each) for each in found[:PAGE_ROWS]],
        "",
        say("Waybills"),
        say("No waybill is issued yet: a call of waybill issuing takes a number from a pool."),
    )
    older = ""
    if len(found) > PAGE_ROWS:
        last = found[PAGE_ROWS - 1]
        older = address(PATH, before=f"{last.asked_at_s}:{last.object_id}")
    return replace(table, older=older, newest=PATH if before else "")


async def _carriers_table(
    context: Context, carriers: Sequence[Carrier], pools: list[Pool]
) -> Block:
    say = context.say
    paces = await numbers_a_day(context.database, int(context.now_s))
    links = {each.wp_code for each in await list_links(context.database)}
    shared = {each.wp_code: each for each in pools if each.owner_id is None}
    return plain_table(
        context,
        sentences("Carrier", "Name", "Delivers", "Numbers from", "Left", "Taken", "Lasts until"),
        [
            [
                Cell(each.wp_code, "mono", address(CARRIER, carrier=each.wp_code)),
                Cell(each.name),
                Cell(shown_area(context, each.area)),
                *(
                    [Cell(say("the carrier")), Cell("", "number"), Cell("", "number"), Cell("")]
                    if each.wp_code in links
                    else [
                        Cell(say("pool")),
                        *_pool_cells(context, shared.get(each.wp_code), paces.get(each.wp_code)),
                    ]
                ),
            ]
            for each in carriers
        ],
        "tollway carrier add CODE NAME",
        none=say("No carrier is known yet: add one below."),
    )


def _numbers_form(context: Context, carriers: Sequence[Carrier]) -> Form:
    say = context.say
    return Form(
        f"{PATH}/numbers",
        say("Load numbers"),
        [
            Field(
                "carrier",
                say("Carrier"),
                "select",
                choices=[(each.wp_code, f"{each.wp_code} {each.name}") for each in carriers],
            ),
            Field("shop", say("Shop"), placeholder=say("all shops"), length_max=64),
            Field("numbers", say("Numbers, one on a line"), "textarea", length_max=12_000),
        ],
        title=say("Load numbers"),
        is_folded=True,
    )


def shown_area(context: Context, area: ServiceArea) -> str:
    say, listed = context.say, ", ".join(area.provinces)
    if area.kind is AreaKind.ALL:
        return say("everywhere")
    if area.kind is AreaKind.ONLY:
        return say("only to {provinces}", provinces=listed)
    return say("everywhere but to {provinces}", provinces=listed)


def carrier_form(context: Context, carrier: Carrier | None) -> Form:
    """The form that adds a carrier, or changes one."""
    say, area = context.say, carrier.area if carrier else ServiceArea()
    code = Field("code", say("Code"), is_required=True, length_max=32, placeholder="YTO")
    areas = [
        (AreaKind.ALL.value, say("everywhere")),
        (AreaKind.ONLY.value, say("only to these provinces")),
        (AreaKind.EXCEPT.value, say("everywhere but to these")),
    ]
    return Form(
        f"{CARRIER}/add",
        say("Add carrier") if carrier is None else say("Save"),
        [
            *([code] if carrier is None else []),
            Field("name", say("Name"), value=carrier.name if carrier else "", is_required=True),
            Field(
                "format",
                say("Number format"),
                value=carrier.number_format if carrier else "",
                placeholder=say("a well-known carrier needs none"),
            ),
            Field("area", say("Delivers"), "select", area.kind.value, areas),
            Field("provinces", say("Provinces"), value=" ".join(area.provinces)),
        ],
        hidden={} if carrier is None else {"code": carrier.wp_code},
        title=say("Add a carrier") if carrier is None else say("Change the carrier"),
        note=say("A format is a regular expression, or S10. Provinces are separated by spaces."),
        is_line=True,
        is_folded=True,
    )


async def _holds(context: Context) -> list[Block]:
    """Credits that are held until a carrier has answered; nothing if there are none."""
    say, holds = context.say, await open_holds(context.database, PAGE_ROWS)
    if not holds:
        return []
    rows = [
        [
            context.time(each.at_ms / 1000),
            Cell(each.account_id, "mono", address("/operator/account", id=each.account_id)),
            context.amount(each.unit, each.amount),
            context.time(each.deadline_at_ms / 1000),
            context.receipt(each.request_id, "/operator/request"),
        ]
        for each in holds
    ]
    titles = sentences("When", "Account", "Held", "Until", "Request")
    return [plain_table(context, titles, rows, "", say("Held until a carrier answers"))]


def _pool_cells(context: Context, pool: Pool | None, pace: float | None) -> list[Cell]:
    """What a pool has left, and when it runs out; the pace of a shop's own pool is not known."""
    say, tone, lasts = context.say, "", Cell("")
    left, taken = (pool.left, pool.taken) if pool else (0, 0)
    if left < FEW_NUMBERS:
        tone = "bad" if left == 0 else "soon"
    if pace and left:
        days = left / pace
        tone = "soon" if days < SOON_DAYS else tone
        last = datetime.fromtimestamp(context.now_s, context.web.zone) + timedelta(
            days=min(days, 36_500)
        )
        lasts = Cell(say("for years") if days > _YEARS_DAYS else last.strftime("%Y-%m-%d"))
    return [Cell(grouped(left), "number", tone=tone), context.number(taken), lasts]


async def numbers_act(context: Context) -> Response:
    say, lines = context.say, context.form.get("numbers", "").split()
    rejected: list[str] = []
    result = await add_numbers(
        context.database,
        context.form.get("carrier", ""),
        context.form.get("shop", "").strip(),
        lines,
        lambda each: rejected.append(f"{each.number}: {context.said(each.reason)}"),
        runtime=context.runtime,
    )
    text = say(
        "{loaded} numbers were loaded, {rejected} were rejected.",
        loaded=grouped(result.loaded),
        rejected=grouped(result.rejected),
    )
    shown = " ".join([text, "; ".join(rejected[:_REJECTED_SHOWN])]).strip()
    return await _carriers_page(context, Notice(shown, "soon" if rejected else "good"))


def _waybill_row(context: Context, waybill: Waybill) -> list[Cell]:
    href = address(WAYBILL, number=waybill.number, carrier=waybill.wp_code)
    return [
        context.time(waybill.asked_at_s),
        Cell(waybill.wp_code, "mono"),
        Cell(waybill.number or "–", "mono", href if waybill.number else ""),
        _state(context, waybill),
        Cell(waybill.order_sn, "mono"),
        Cell(waybill.owner_id, "mono"),
    ]


def _state(context: Context, waybill: Waybill) -> Cell:
    tone, state = STATES[waybill.state]
    return Cell(context.say(state), tone=tone)


async def _waybill(context: Context) -> StoredWaybill:
    return await find_by_number(
        context.database, context.form.get("number", ""), context.form.get("carrier") or None
    )


async def show_waybill(context: Context) -> Response:
    say, stored = context.say, await _waybill(context)
    waybill = stored.waybill
    number = waybill.number or ""
    named = {"number": number, "carrier": waybill.wp_code}
    facts = [
        (say("State"), _state(context, waybill)),
        (say("Order"), Cell(waybill.order_sn, "mono")),
        (say("Shop or user"), Cell(waybill.owner_id, "mono")),
        (
            say("Account"),
            Cell(waybill.account_id, "mono", address("/operator/account", id=waybill.account_id)),
        ),
        (say("Charged"), context.amount("credits", waybill.price)),
        (say("When"), context.time(waybill.asked_at_s)),
    ]
    if waybill.cancelled_at_s:
        facts.append((say("Cancelled"), context.time(waybill.cancelled_at_s)))
    if waybill.request_id:
        href = address("/operator/request", id=waybill.request_id)
        facts.append((say("Request"), Cell(waybill.request_id, "mono", href)))
    label = address(f"{WAYBILL}/label", **named)
    blocks: list[Block] = [
        Columns(
            [
                Facts(facts, say("Details")),
                Picture(say("Shipping label"), label, f"{waybill.wp_code} {number}"),
            ]
        ),
        Form(
            f"{WAYBILL}/label",
            say("Print"),
            [Field("kind", say("Format"), "select", choices=[(k, k.upper()) for k in _TYPES])],
            hidden=named,
            title=say("Print the label"),
            note=say("After that its receiver cannot be changed."),
            is_line=True,
        ),
    ]
    if waybill.state == "issued":
        blocks.append(
            Form(
                f"{WAYBILL}/cancel",
                say("Cancel the waybill"),
                hidden=named,
                title=say("Cancel"),
                note=say("Its order can get another one. Its number is never used again."),
                tone="warn",
                is_folded=True,
            )
        )
    return context.page(
        f"{waybill.wp_code} {number}",
        blocks,
        crumbs=[Link(say("Carriers"), PATH)],
    )


_TYPES = {"pdf": "application/pdf", "png": "image/png", "zpl": "text/plain"}


async def show_label(context: Context) -> Response:
    """The label to look at, which leaves the waybill as it is."""
    return await _drawn(context, await _waybill(context), "png")


async def print_act(context: Context) -> Response:
    kind = context.form.get("kind", "")
    stored = await _waybill(context)
    (stored,) = await print_waybills(context.database, [stored], context.runtime)
    of = stored.waybill
    await record(context, "waybill print", f"account {of.account_id}", {"number": of.number})
    return await _drawn(context, stored, kind if kind in _TYPES else "png")


async def _drawn(context: Context, stored: StoredWaybill, kind: str) -> Response:
    vault = context.services.vault

    def drawn() -> bytes:
        label = label_of(stored.own_print_data(vault), vault.label_signer)
        return WRITERS[f".{kind}"](label, find_fonts(None), style_of(context.services.settings))

    async with context.web.aside():
        content = await asyncio.to_thread(drawn)
    return Response(content, media_type=_TYPES[kind])


async def cancel_act(context: Context) -> Response:
    say, found = context.say, (await _waybill(context)).waybill
    number = found.number or ""
    asked = context.ask_once(
        say(
            "Cancel waybill {number} of {carrier}, order {order}? It cannot be undone.",
            number=number,
            carrier=found.wp_code,
            order=found.order_sn,
        ),
        say("Cancel the waybill"),
    )
    if asked is not None:
        return asked
    async with context.web.aside():
        await context.services.work.cancel_at_carrier(found)
    await cancel_waybill(context.database, number, found.wp_code, context.runtime)
    return context.go(WAYBILL, number=number, carrier=found.wp_code)
