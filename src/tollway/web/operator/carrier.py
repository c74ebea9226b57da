"""One carrier: its name and area, where its numbers come from, and its routing table."""

import asyncio
from dataclasses import replace

from starlette.responses import Response

from tollway.carriers.carrier_links import (
    CAINIAO_LINK,
    DEADLINE_MS,
    DEADLINE_MS_MAX,
    SETTLE_AFTER_S,
    SETTLE_AFTER_S_MAX,
    CarrierLink,
    connect,
    disconnect,
    find_link,
    list_links,
)
from tollway.carriers.carriers import AreaKind, Carrier, ServiceArea, add_carrier, known_carrier
from tollway.carriers.connectors.cainiao_link import CainiaoConnector
from tollway.carriers.connectors.connector import ConnectorError
from tollway.carriers.connectors.http_exchange import open_client
from tollway.carriers.connectors.protocols import PROTOCOLS
from tollway.carriers.sorting_codes import Route, RouteError, list_routes, put_routes, read_route
from tollway.intake.files import read_records
from tollway.web.area import Context, address
from tollway.web.blocks import Block, Cell, Facts, Field, Filters, Form, Link, Notice, folded_act
from tollway.web.lists import BEGIN, list_part, plain_table
from tollway.web.operator.carriers import CARRIER, PATH, carrier_form, shown_area
from tollway.web.operator.rejected import said_reason
from tollway.web.page_errors import PageError
from tollway.web.uploads import FILE_FIELD, Upload
from tollway.web.wording import grouped, sentences, written_list
from tollway.webhooks.addresses import Addresses

_PROBLEMS_SHOWN = 5


async def _wanted(context: Context) -> Carrier:
    return await known_carrier(context.database, context.form.get("carrier", "").upper())


async def show_carrier(context: Context, *first: Block) -> Response:
    say, carrier = context.say, await _wanted(context)
    code = carrier.wp_code
    links = {each.wp_code: each for each in await list_links(context.database)}
    link = links.get(code)
    facts = [
        (say("Carrier"), Cell(code, "mono")),
        (say("Number format"), Cell(carrier.number_format, "mono")),
        (say("Delivers"), Cell(shown_area(context, carrier.area))),
        (say("Numbers from"), Cell(say("pool") if link is None else link.url, "mono")),
    ]
    if link is not None:
        facts += [
            (say("Protocol"), Cell(link.protocol, "mono")),
            (say("Time to answer"), Cell(f"{grouped(link.deadline_ms)} ms")),
            (say("Connection changed"), context.time(link.changed_at_s)),
        ]
    blocks: list[Block] = [*first, Facts(facts, say("Details"))]
    blocks.append(carrier_form(context, carrier))
    blocks.append(_connect_form(context, code, link))
    if link is not None:
        if link.protocol == CAINIAO_LINK:
            blocks.append(_subscriptions_form(context, code))
        note = say("Its numbers come from the pool again.")
        leaving = {"carrier": code}
        blocks.append(folded_act(f"{CARRIER}/disconnect", say("Disconnect"), leaving, note))
    blocks += await _routing(context, code)
    loading = Link(say("Load numbers"), address(PATH, load=code))
    return context.page(
        carrier.name,
        blocks,
        crumbs=[Link(say("Carriers"), PATH)],
        actions=[loading] if link is None else [],
    )


def _subscriptions_form(context: Context, code: str) -> Form:
    say = context.say
    return Form(
        f"{CARRIER}/subscriptions",
        say("Ask the carrier"),
        hidden={"carrier": code},
        title=say("Subscriptions"),
        note=say("Which branches issue numbers, how many, and from which addresses."),
        is_folded=True,
    )


async def add_act(context: Context) -> Response:
    form = context.form
    provinces = written_list(form.get("provinces", ""))
    kind = AreaKind(form["area"]) if form.get("area") in {e.value for e in AreaKind} else None
    if kind is None or bool(provinces) is (kind is AreaKind.ALL):
        wrong = PageError(400, "Where does it deliver?", "Name provinces, or choose everywhere.")
        raise wrong.at("provinces")
    added = await add_carrier(
        context.database,
        form.get("code", "").strip(),
        form.get("name", "").strip(),
        form.get("format", "").strip() or None,
        ServiceArea(kind, tuple(provinces)),
        context.runtime,
    )
    return context.go(CARRIER, carrier=added.wp_code)


def _connect_form(context: Context, code: str, link: CarrierLink | None) -> Form:
    say = context.say
    shown = link or CarrierLink(code, "", "", "", DEADLINE_MS, SETTLE_AFTER_S, 0, CAINIAO_LINK)
    return Form(
        f"{CARRIER}/connect",
        say("Connect"),
        [
            Field(
                "url",
                say("Address of its messages"),
                "url",
                shown.url,
                is_required=True,
                length_max=2000,
                placeholder="https://",
            ),
            Field(
                "protocol",
                say("Protocol"),
                "select",
                shown.protocol,
                [(each, each) for each in PROTOCOLS.names],
            ),
            Field("provider", "logistic_provider_id", value=shown.provider_id, is_required=True),
            Field("to_code", "to_code", value=shown.to_code),
            Field("template", say("Address of the label's template"), "url", shown.template_url),
            Field(
                "secret",
                say("Secret"),
                "password",
                is_required=True,
                length_max=256,
                autocomplete="new-password",
            ),
            Field("deadline_ms", say("Time to answer, ms"), "number", str(shown.deadline_ms)),
            Field("settle_after_s", say("Lost after, s"), "number", str(shown.settle_after_s)),
            Field("plain", say("Allow http:// to another machine"), "checkbox"),
        ],
        hidden={"carrier": code},
        title=say("Connect") if link is None else say("Change the connection"),
        note=say("The carrier then gives its numbers itself. The secret is stored encrypted."),
        is_line=True,
        is_folded=True,
    )


async def _refuse_internal(context: Context, url: str) -> None:
    """Refuses an internal address, unless it is already stored: the command line may set one, and
    the page must still be able to change the rest."""
    if url in {each.url for each in await list_links(context.database)}:
        return
    # Not those of the webhooks: callers whose hosts are slow to look up must not delay this.
    addresses = Addresses(context.services.settings.internal_hosts)
    if await addresses.leads_inside(url):
        raise PageError(
            409,
            "This address cannot be used",
            "It leads to an internal machine: connect it at the terminal, or list its host in "
            "webhook_internal_hosts.",
        ).at("url")


async def connect_act(context: Context) -> Response:
    say, form, carrier = context.say, context.form, await _wanted(context)
    deadline_ms = context.whole_number("deadline_ms", say("Time to answer, ms"))
    settle_after_s = context.whole_number("settle_after_s", say("Lost after, s"))
    if not 1 <= deadline_ms <= DEADLINE_MS_MAX or not 1 <= settle_after_s <= SETTLE_AFTER_S_MAX:
        raise PageError(
            400,
            "These times cannot be",
            "It may take up to {deadline} ms, and a message is lost after {settle} s at most.",
            deadline=grouped(DEADLINE_MS_MAX),
            settle=grouped(SETTLE_AFTER_S_MAX),
        )
    protocol = form.get("protocol", "")
    PROTOCOLS.named(protocol)
    link = CarrierLink(
        carrier.wp_code,
        form.get("url", "").strip(),
        form.get("provider", "").strip(),
        form.get("to_code", "").strip(),
        deadline_ms,
        settle_after_s,
        context.runtime.at_s(),
        protocol,
        form.get("template", "").strip(),
    )
    await _refuse_internal(context, link.url)
    await connect(
        context.database,
        context.services.vault.sealer,
        link,
        form.get("secret", ""),
        allows_plain=form.get("plain") == "yes",
        runtime=context.runtime,
    )
    return context.go(CARRIER, carrier=carrier.wp_code)


async def disconnect_act(context: Context) -> Response:
    say, carrier = context.say, await _wanted(context)
    question = say("Disconnect {name}? Its numbers come from the pool again.", name=carrier.name)
    context.confirm(question, say("Disconnect"))
    await disconnect(context.database, carrier.wp_code, context.runtime)
    return context.go(CARRIER, carrier=carrier.wp_code)


async def subscriptions_act(context: Context) -> Response:
    say, carrier = context.say, await _wanted(context)
    opened = await find_link(context.database, context.services.vault.sealer, carrier.wp_code)
    if opened is None or opened.link.protocol != CAINIAO_LINK:
        raise PageError(409, "That is not possible", "It is not connected with LINK.")
    try:
        async with context.web.without_slot(), open_client() as client:
            found = await CainiaoConnector(client, carrier, opened).subscriptions()
    except ConnectorError as error:
        problem = say("The carrier did not say: {problem}", problem=context.said(error.sentence))
        return await show_carrier(context, Notice(problem, "bad"))
    table = plain_table(
        context,
        sentences("Branch", "Left", "Allocated", "Numbers cancelled", "Printed", "Picks up at"),
        [
            [
                Cell(each.branch_code, "mono"),
                *(
                    context.number(count)
                    for count in (each.quantity, each.allocated, each.cancelled, each.printed)
                ),
                Cell(say("; ").join(each.addresses)),
            ]
            for each in found
        ],
        say("Subscriptions"),
    )
    return await show_carrier(context, table)


async def _routing(context: Context, code: str) -> list[Block]:
    say, text = context.say, context.query("q")
    known = await list_routes(context.database, code)
    found = [each for each in known if each.has(text)]
    kept = {"carrier": code, "q": text}
    # A table has as many rows as there are places at most, so it is read whole.
    part = list_part(found, context.query(BEGIN), CARRIER, kept)
    table = plain_table(
        context,
        sentences(
            "Province", "City", "District", "Route code", "Consolidation", "Consolidation code"
        ),
        [_route_row(each) for each in part.rows],
        say("Routing table"),
        say("No row matches.") if known else "",
        command="" if known else f"tollway carrier routes {code} FILE",
    )
    place_or_code = Field("q", say("Place or code"), "search", text)
    table = replace(
        table,
        filters=Filters(CARRIER, [place_or_code], {"carrier": code}) if known else None,
        note=say("Rows: {count}", count=grouped(len(found))) if found else "",
        older=part.next,
        newest=part.first,
        is_by_name=True,
    )
    return [table, _routes_form(context, code)]


def _route_row(route: Route) -> list[Cell]:
    return [
        Cell(route.province),
        Cell(route.city or "–"),
        Cell(route.district or "–"),
        Cell(route.route_code, "code"),
        Cell(route.consolidation),
        Cell(route.consolidation_code, "mono"),
    ]


def _routes_form(context: Context, code: str) -> Form:
    say = context.say
    return Form(
        f"{CARRIER}/routes",
        say("Load the file"),
        [
            Field(FILE_FIELD, say("File"), "file", is_required=True),
            Field("replace", say("Remove the rows that are not in the file"), "checkbox"),
        ],
        hidden={"carrier": code},
        title=say("Load a routing table"),
        note=say(
            "CSV, JSON Lines, JSON or .xlsx with province, city, district, route_code, "
            "consolidation and consolidation_code."
        ),
        is_line=True,
        is_folded=True,
        takes_file=True,
    )


async def routes_act(context: Context) -> Response:
    say, upload = context.say, context.upload
    assert upload is not None
    try:
        carrier = await _wanted(context)
        async with context.web.without_slot():
            found, problems = await asyncio.to_thread(_read_routes, upload, context)
        if not found:
            raise PageError(400, "No row of the file can be used", "The table stays as it was.")
        is_whole = context.form.get("replace") == "yes"
        change = await put_routes(
            context.database, carrier.wp_code, found, replace=is_whole, runtime=context.runtime
        )
    finally:
        upload.drop()
    text = say(
        "Rows stored: {stored}, rejected: {rejected}.",
        stored=grouped(change.stored),
        rejected=grouped(len(problems)),
    )
    text = say(" ").join([text, say("; ").join(problems[:_PROBLEMS_SHOWN])]).strip()
    return await show_carrier(context, Notice(text, "soon" if problems else "good"))


def _read_routes(upload: Upload, context: Context) -> tuple[list[Route], list[str]]:
    if upload.path is None or not upload.name:
        return [], []
    found, problems = [], []
    for record in read_records(upload.path, upload.name):
        try:
            found.append(read_route(record.all_values()))
        except RouteError as error:
            problems.append(f"{record.line}: {context.said(error.sentence)}")
        except ValueError as error:
            problems.append(f"{record.line}: {said_reason(context.say, str(error))}")
    return found, problems
