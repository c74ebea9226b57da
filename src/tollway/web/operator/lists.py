"""Lists that the operator reads: shops and consents, carriers and waybills, data, nodes, the trail,
settings. Each is a table; a waybill has a page with its label."""

import asyncio
from dataclasses import fields

from sqlalchemy import Integer, bindparam, select
from starlette.responses import Response

from tollway.carriers.carriers import list_carriers
from tollway.carriers.labels.fonts import find_fonts
from tollway.carriers.labels.formats import WRITERS
from tollway.carriers.labels.layout import style_of
from tollway.carriers.labels.print_data import label_of
from tollway.carriers.pools import Pool, list_pools
from tollway.carriers.waybills import StoredWaybill, Waybill, find_by_number, list_waybills
from tollway.consent.grants import all_grants, find_grant, revoke_grant
from tollway.intake.sources import list_sources
from tollway.ledger.trail import newest_acts
from tollway.settings import Settings
from tollway.store.open import without_password
from tollway.store.query import Query
from tollway.store.schema.database import node
from tollway.store.schema.intake import rejected_record
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Cell, Column, Columns, Empty, Facts, Link, Notice, Picture, Table
from tollway.web.wording import grouped, sentence, sentences

SHOPS = "/operator/shops"
CARRIERS = "/operator/carriers"
WAYBILL = "/operator/waybill"
DATA = "/operator/data"
NODES = "/operator/nodes"
TRAIL = "/operator/trail"
SETTINGS = "/operator/settings"
_FEW_NUMBERS = 100
_SILENT_S = 90
_SHOWN_MAX = 200
_WAYBILL_STATES = {
    "issued": ("good", sentence("issued")),
    "pending": ("soon", sentence("pending")),
    "refused": ("bad", sentence("refused")),
    "cancelled": ("", sentence("cancelled")),
}
_NODES = Query(
    select(node.c.name, node.c.version, node.c.knows_schema, node.c.seen_at_ms).order_by(
        node.c.name
    )
)
_REJECTED = Query(
    select(
        rejected_record.c.received_at_s,
        rejected_record.c.source,
        rejected_record.c.kind,
        rejected_record.c.reason,
        rejected_record.c.id,
    )
    .order_by(rejected_record.c.received_at_s.desc())
    .limit(bindparam("most", type_=Integer))
)


async def show_shops(context: Context) -> Response:
    say = context.say
    rows = []
    for each in (await all_grants(context.database))[:_SHOWN_MAX]:
        grant, is_valid = each.grant, each.grant.holds(context.now_s)
        revoke = address(f"{SHOPS}/revoke", consent=grant.id)
        rows.append(
            [
                Cell(f"{grant.owner_kind} {grant.owner_id}", "mono"),
                Cell(each.account_name, href=address("/operator/account", id=grant.account_id)),
                Cell(grant.scope),
                Cell(say("allowed") if is_valid else say("ended"), tone="good" if is_valid else ""),
                context.time(grant.granted_at_s),
                context.time(grant.expires_at_s),
                Cell(say("Revoke"), href=revoke) if is_valid else Cell(""),
            ]
        )
    titles = sentences("Shop or user", "Account", "What", "State", "Granted", "Expires")
    table = Table(
        [*(Column(say(each)) for each in titles), Column("")],
        rows,
        Empty(say("No shop has given consent."), command="tollway shop add"),
    )
    return context.page(say("Shops and consents"), [table])


async def revoke_consent_act(context: Context) -> Response:
    say = context.say
    grant = await find_grant(context.database, context.form.get("consent", ""))
    question = say(
        "Revoke the consent of {owner} for {what}? The account's next call is refused.",
        owner=f"{grant.owner_kind} {grant.owner_id}",
        what=grant.scope,
    )
    asked = context.ask_once(question, say("Revoke"))
    if asked is not None:
        return asked
    await revoke_grant(context.database, context.runtime, grant.id)
    return context.go(SHOPS)


async def show_carriers(context: Context) -> Response:
    say, database = context.say, context.database
    carriers = [
        [Cell(each.wp_code, "mono"), Cell(each.name), Cell(each.number_format, "mono")]
        for each in await list_carriers(database)
    ]
    pools = _table(
        context,
        sentences("Carrier", "Pool of", "Left", "Taken"),
        [_pool_row(context, each) for each in await list_pools(database)],
        "tollway pool add",
        say("Numbers"),
    )
    known = _table(
        context,
        sentences("Carrier", "Name", "Numbers"),
        carriers,
        "tollway carrier add",
        say("Carriers"),
    )
    waybills = _table(
        context,
        sentences("When", "Carrier", "Number", "State", "Order", "Shop or user"),
        [_waybill_row(context, each) for each in await list_waybills(database, None, PAGE_ROWS)],
        "",
        say("Newest waybills"),
    )
    return context.page(say("Carriers"), [Columns([pools, known]), waybills])


def _pool_row(context: Context, pool: Pool) -> list[Cell]:
    tone = "bad" if pool.left == 0 else "soon" if pool.left < _FEW_NUMBERS else ""
    return [
        Cell(pool.wp_code, "mono"),
        Cell(pool.owner_id or context.say("all shops")),
        Cell(grouped(pool.left), "number", tone=tone),
        context.number(pool.taken),
    ]


def _waybill_row(context: Context, waybill: Waybill) -> list[Cell]:
    tone, state = _WAYBILL_STATES[waybill.state]
    href = address(WAYBILL, number=waybill.number, carrier=waybill.wp_code)
    shown = context.say(state)
    return [
        context.time(waybill.asked_at_s),
        Cell(waybill.wp_code, "mono"),
        Cell(waybill.number or "–", "mono", href if waybill.number else ""),
        Cell(shown, tone=tone) if tone else Cell(shown),
        Cell(waybill.order_sn, "mono"),
        Cell(waybill.owner_id, "mono"),
    ]


def _table(
    context: Context, titles: tuple[str, ...], rows: list[list[Cell]], command: str, title: str = ""
) -> Table:
    say = context.say
    kinds = [cell.kind if cell.kind == "number" else "" for cell in rows[0]] if rows else []
    columns = [
        Column(say(each), kinds[index] if kinds else "") for index, each in enumerate(titles)
    ]
    return Table(columns, rows, Empty(say("There is nothing here yet."), command=command), title)


async def _waybill(context: Context) -> StoredWaybill:
    return await find_by_number(
        context.database, context.query("number"), context.query("carrier") or None
    )


async def show_waybill(context: Context) -> Response:
    say, stored = context.say, await _waybill(context)
    waybill = stored.waybill
    tone, state = _WAYBILL_STATES[waybill.state]
    number = waybill.number or ""
    facts = [
        (say("State"), Cell(say(state), tone=tone) if tone else Cell(say(state))),
        (say("Order"), Cell(waybill.order_sn, "mono")),
        (say("Shop or user"), Cell(waybill.owner_id, "mono")),
        (
            say("Account"),
            Cell(waybill.account_id, "mono", address("/operator/account", id=waybill.account_id)),
        ),
        (say("Charged"), context.amount("credits", waybill.price)),
        (say("When"), context.time(waybill.asked_at_s)),
    ]
    if waybill.request_id:
        href = address("/operator/request", id=waybill.request_id)
        facts.append((say("Request"), Cell(waybill.request_id, "mono", href)))
    label = address(f"{WAYBILL}/label", number=number, carrier=waybill.wp_code, kind="png")
    pdf = address(f"{WAYBILL}/label", number=number, carrier=waybill.wp_code, kind="pdf")
    return context.page(
        f"{waybill.wp_code} {number}",
        [
            Columns(
                [
                    Facts(facts, say("Details")),
                    Picture(say("Label"), label, f"{waybill.wp_code} {number}"),
                ]
            )
        ],
        crumbs=[Link(say("Carriers"), CARRIERS)],
        actions=[Link("PDF", pdf)],
    )


async def waybill_label(context: Context) -> Response:
    kind = "pdf" if context.query("kind") == "pdf" else "png"
    stored, vault = await _waybill(context), context.services.vault

    def drawn() -> bytes:
        label = label_of(stored.own_print_data(vault), vault.label_signer)
        return WRITERS[f".{kind}"](label, find_fonts(None), style_of(context.services.settings))

    async with context.web.aside():
        content = await asyncio.to_thread(drawn)
    return Response(content, media_type="application/pdf" if kind == "pdf" else "image/png")


async def show_data(context: Context) -> Response:
    say = context.say
    sources = [
        [Cell(each.name), context.time(each.added_at_s), context.time(each.rotated_at_s)]
        for each in await list_sources(context.database)
    ]
    rejected = [
        [context.time(at_s), Cell(source), Cell(kind), Cell(reason), Cell(record_id, "mono")]
        for at_s, source, kind, reason, record_id in await context.database.fetch_long(
            _REJECTED, "lists", most=PAGE_ROWS
        )
    ]
    return context.page(
        say("Data"),
        [
            _table(
                context,
                sentences("Source", "Added", "Secret changed"),
                sources,
                "tollway source add NAME",
                say("Sources"),
            ),
            _table(
                context,
                sentences("When", "Source", "Kind", "Reason", "Id"),
                rejected,
                "",
                say("Rejected records"),
            ),
            Notice(say("Send rejected records again with the command `tollway intake replay`.")),
        ],
    )


async def show_nodes(context: Context) -> Response:
    say = context.say
    rows = []
    for name, version, schema, seen_at_ms in await context.database.fetch_all(_NODES):
        is_alive = context.now_s - seen_at_ms / 1000 < _SILENT_S
        rows.append(
            [
                Cell(name, "mono"),
                Cell(
                    say("Serving") if is_alive else say("silent"),
                    tone="good" if is_alive else "bad",
                ),
                Cell(version),
                Cell(schema, "mono"),
                context.time(seen_at_ms / 1000),
            ]
        )
    table = _table(
        context, sentences("Node", "State", "Version", "Schema", "Seen"), rows, "tollway serve"
    )
    return context.page(say("Nodes"), [table])


async def show_trail(context: Context) -> Response:
    say, of, before = context.say, context.query("of"), context.query("before")
    number = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else 2**62
    acts = await newest_acts(context.database, PAGE_ROWS, of=of, before_number=number)
    rows = [
        [
            context.number(each.number),
            context.time(each.at_ms / 1000),
            Cell(each.by, href=address(TRAIL, of=each.by)),
            Cell(each.act),
            Cell(each.subject, "mono", address(TRAIL, of=each.subject)),
            Cell((each.after or each.before or "")[:_SHOWN_MAX], "mono"),
        ]
        for each in acts
    ]
    titles = sentences("Number", "When", "By", "Act", "Subject", "After")
    table = Table(
        [Column(say(each), "number" if each == "Number" else "") for each in titles],
        rows,
        Empty(say("No act is recorded yet.")),
        older=address(TRAIL, of=of, before=acts[-1].number) if len(acts) == PAGE_ROWS else "",
        newest=TRAIL if of or before else "",
    )
    return context.page(say("Trail"), [table], lead=say("Every act of an operator, never changed."))


async def show_settings(context: Context) -> Response:
    say, settings = context.say, context.services.settings
    rows = []
    for field in fields(Settings):
        value = getattr(settings, field.name)
        if field.name in ("database", "read_database") and value:
            value = without_password(value)
        is_default = value == field.default
        rows.append(
            [
                Cell(field.name, "mono"),
                Cell(str(value) or "–", "mono"),
                Cell(say("default") if is_default else say("set")),
                Cell(field.metadata["meaning"]),
            ]
        )
    table = _table(context, sentences("Setting", "Value", "From", "Meaning"), rows, "")
    lead = say("Read-only: set them in the environment or in tollway.toml, then restart.")
    return context.page(say("Settings"), [table], lead=lead)
