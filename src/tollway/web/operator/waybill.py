"""One waybill with its label on screen: printing it, printing it again, cancelling it, and deciding
what became of it if its carrier does not say."""

import asyncio

from starlette.responses import Response

from tollway.carriers import CarrierError
from tollway.carriers.labels.drawing import find_fonts
from tollway.carriers.labels.formats import WRITERS
from tollway.carriers.labels.layout import style_of
from tollway.carriers.labels.print_data import label_of
from tollway.carriers.waybills import (
    StoredWaybill,
    Waybill,
    cancel_waybill,
    find_by_id,
    find_by_number,
    list_by_number,
    print_waybills,
)
from tollway.contract.operation import OwnerKind
from tollway.ledger.accounts import names_of
from tollway.store.key_file import SealError
from tollway.web.area import Context, address
from tollway.web.blocks import (
    Block,
    Cell,
    Columns,
    Facts,
    Field,
    Form,
    Link,
    Notice,
    Picture,
    folded_act,
)
from tollway.web.operator.decisions import SAID, decision_blocks, kept_form
from tollway.web.operator.waybills import PATH, WAYBILL, shown_state, waybills_table
from tollway.web.wording import sentence

# Why a waybill was given up; other reasons are the carrier's own words.
_OWN_REASONS = {
    sentence("The carrier did not know of it."),
    sentence("The operator decided that it was not issued."),
}
_TYPES = {"pdf": "application/pdf", "png": "image/png", "zpl": "text/plain"}


async def _wanted(context: Context) -> StoredWaybill:
    return await find_by_number(
        context.database, context.form.get("number", ""), context.form.get("carrier") or None
    )


async def show_waybill(context: Context) -> Response:
    """One waybill, or all with this number if the address names no carrier."""
    number = context.query("number")
    if object_id := context.query("id"):
        return await _waybill_page(context, await find_by_id(context.database, object_id))
    if not context.query("carrier"):
        found = await list_by_number(context.database, number)
        if len(found) > 1:
            table = await waybills_table(context, [each.waybill for each in found])
            crumbs = [Link(context.say("Waybills"), PATH)]
            return context.page(number, [table], crumbs=crumbs)
    return await _waybill_page(context, await _wanted(context))


async def _waybill_page(context: Context, stored: StoredWaybill) -> Response:
    say, waybill = context.say, stored.waybill
    crumbs = [Link(say("Waybills"), PATH)]
    facts = Facts(await _facts(context, waybill), say("Details"))
    said = context.reported(SAID)
    if waybill.number is None:
        title = f"{waybill.wp_code} · {waybill.order_sn}"
        shown = [*said, *await decision_blocks(context, waybill), facts]
        return context.page(title, shown, crumbs=crumbs)
    beside: list[Block] = [facts]
    try:
        stored.own_print_data(context.services.vault)
    except CarrierError as error:
        label: Block = Notice(context.said(error.sentence), "soon")
    except SealError:
        label = Notice(say("The label cannot be read: its key is missing."), "bad")
    else:
        name = f"{waybill.wp_code} {waybill.number}"
        address_of_label = address(f"{WAYBILL}/label", **_named(waybill))
        label = Picture(say("Shipping label"), address_of_label, name)
        if waybill.changing_until_s is None:
            beside.append(_print_form(context, waybill))
    if waybill.state == "issued":
        beside += [*kept_form(context, waybill), _cancel_form(context, waybill)]
    return context.page(
        f"{waybill.wp_code} {waybill.number}",
        # The inner columns stack: half a page is too narrow for two.
        [*said, Columns([Columns(beside), label])],
        crumbs=crumbs,
    )


def _named(waybill: Waybill) -> dict[str, str]:
    return {"number": waybill.number or "", "carrier": waybill.wp_code}


async def _facts(context: Context, waybill: Waybill) -> list[tuple[str, Cell]]:
    say = context.say
    names = await names_of(context.database, [waybill.account_id])
    account = address("/operator/account", id=waybill.account_id)
    shop = address("/operator/shop", kind=OwnerKind.SHOP, shop=waybill.owner_id)
    facts = [
        (say("State"), shown_state(context, waybill)),
        (say("Waybill number"), Cell(waybill.number or "", "mono id")),
        (say("Order"), Cell(waybill.order_sn, "mono id")),
        (say("Shop or user"), Cell(waybill.owner_id, "mono", shop)),
        (say("Account"), Cell(names.get(waybill.account_id, waybill.account_id), "", account)),
        *_price(context, waybill),
        (say("When"), context.time(waybill.asked_at_s)),
    ]
    if waybill.printed_at_s:
        facts.append((say("First printed"), context.time(waybill.printed_at_s)))
    if waybill.cancelled_at_s:
        facts.append((say("Cancelled"), context.time(waybill.cancelled_at_s)))
    if waybill.request_id:
        href = address("/operator/request", id=waybill.request_id)
        facts.append((say("Request"), Cell(waybill.request_id, "mono id", href)))
    return facts


def _price(context: Context, waybill: Waybill) -> list[tuple[str, Cell]]:
    """What it cost; what is held is not charged yet, and what was refused cost nothing."""
    say, price = context.say, context.amount("credits", waybill.price)
    if waybill.state == "refused":
        why = waybill.refusal or ""
        return [(say("Reason"), Cell(say(why) if why in _OWN_REASONS else why))]
    return [(say("Held") if waybill.state == "pending" else say("Charged"), price)]


def _print_form(context: Context, waybill: Waybill) -> Form:
    say = context.say
    title, button = say("Print the label"), say("Print")
    note = say("Nothing is charged. After that its receiver cannot be changed.")
    if waybill.printed_at_s:
        title, button = say("Print the label again"), say("Print again")
        note = say("It was printed before. This is the same label, and nothing is charged.")
    return Form(
        f"{WAYBILL}/label",
        button,
        [Field("kind", say("Format"), "select", choices=[(k, k.upper()) for k in _TYPES])],
        hidden=_named(waybill),
        title=title,
        note=note,
        is_line=True,
    )


def _cancel_form(context: Context, waybill: Waybill) -> Form:
    say = context.say
    note = say("Its order can get another one. Its number is never used again.")
    return folded_act(f"{WAYBILL}/cancel", say("Cancel the waybill"), _named(waybill), note)


async def show_label(context: Context) -> Response:
    """The label for viewing only: the waybill does not change."""
    return await _drawn(context, await _wanted(context), "png")


async def print_act(context: Context) -> Response:
    kind = context.form.get("kind", "")
    stored = await _wanted(context)
    # Before it counts as printed: without a font, no label is written.
    await asyncio.to_thread(find_fonts)
    (stored,) = await print_waybills(context.database, [stored], context.runtime)
    return await _drawn(context, stored, kind if kind in _TYPES else "png")


async def _drawn(context: Context, stored: StoredWaybill, kind: str) -> Response:
    vault = context.services.vault

    def drawn() -> bytes:
        label = label_of(stored.own_print_data(vault), vault.label_signer)
        return WRITERS[f".{kind}"](label, find_fonts(), style_of(context.services.settings))

    async with context.web.without_slot():
        content = await asyncio.to_thread(drawn)
    return Response(content, media_type=_TYPES[kind])


async def cancel_act(context: Context) -> Response:
    say, found = context.say, (await _wanted(context)).waybill
    number = found.number or ""
    context.confirm(
        say(
            "Cancel waybill {number} of {carrier}, order {order}? It cannot be undone.",
            number=number,
            carrier=found.wp_code,
            order=found.order_sn,
        ),
        say("Cancel the waybill"),
    )
    async with context.web.without_slot():
        await context.services.work.cancel_at_carrier(found)
    await cancel_waybill(context.database, number, found.wp_code, context.runtime)
    return context.go(WAYBILL, number=number, carrier=found.wp_code)
