"""Carriers, and their pools of numbers."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from starlette.responses import Response

from tollway.carriers.carrier_links import list_links
from tollway.carriers.carriers import AreaKind, Carrier, ServiceArea, list_carriers
from tollway.carriers.pool_levels import PoolLevels, numbers_a_day, pool_levels
from tollway.carriers.pools import Pool, add_numbers
from tollway.consent.owners import find_owner
from tollway.contract.operation import OwnerKind
from tollway.ledger.balance_pace import SOON_DAYS
from tollway.web.area import Context, address
from tollway.web.blocks import Block, Cell, Columns, Field, Form, Notice
from tollway.web.lists import BEGIN, list_part, plain_table
from tollway.web.operator.attention import FEW_NUMBERS
from tollway.web.pages import FORM_BYTES_MAX
from tollway.web.wording import grouped, listed, sentences

PATH = "/operator/carriers"
CARRIER = "/operator/carrier"
_REJECTED_SHOWN = 20
_YEARS_DAYS = 1000


async def show_carriers(context: Context, *first: Block) -> Response:
    say, database = context.say, context.database
    carriers = await list_carriers(database)
    levels = await pool_levels(database)
    known = await _carriers_table(context, carriers, levels)
    of_shops = _pools_of_shops(context, levels)
    # Without a carrier there is nothing to load numbers for.
    loading = [_numbers_form(context, carriers)] if carriers else []
    forms = Columns([*loading, carrier_form(context, None)])
    return context.page(say("Carriers"), [*first, known, *of_shops, forms])


def _pools_of_shops(context: Context, levels: PoolLevels) -> list[Block]:
    """Those with the fewest numbers first; no block if there are none."""
    pools = [each for each in levels.pools if each.owner_id is not None]
    if not pools:
        return []
    fewest = sorted(pools, key=lambda each: each.left)
    part = list_part(fewest, context.query(BEGIN), PATH)
    rows = []
    for each in part.rows:
        # When it runs out is not known.
        left, taken, _ = _pool_cells(context, each, levels.most, None)
        shop = address("/operator/shop", kind=OwnerKind.SHOP, shop=each.owner_id)
        rows.append(
            [Cell(each.wp_code, "mono"), Cell(each.owner_id or "", "mono", shop), left, taken]
        )
    table = plain_table(
        context,
        sentences("Carrier", "Pool of", "Left", "Taken"),
        rows,
        context.say("Pools of single shops"),
    )
    return [replace(table, older=part.next, newest=part.first, is_by_name=True)]


async def _carriers_table(
    context: Context, carriers: Sequence[Carrier], levels: PoolLevels
) -> Block:
    say = context.say
    paces = await numbers_a_day(context.database, int(context.now_s))
    links = {each.wp_code for each in await list_links(context.database)}
    shared = {each.wp_code: each for each in levels.pools if each.owner_id is None}
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
                        *_pool_cells(
                            context,
                            shared.get(each.wp_code),
                            levels.most,
                            paces.get(each.wp_code),
                        ),
                    ]
                ),
            ]
            for each in carriers
        ],
        none=say("No carrier is known yet: add one below."),
        command="tollway carrier add CODE NAME",
    )


def _numbers_form(context: Context, carriers: Sequence[Carrier]) -> Form:
    """Folded, unless the address names a carrier whose numbers run out."""
    say, wanted = context.say, context.query("load")
    return Form(
        f"{PATH}/numbers",
        say("Load numbers"),
        [
            Field(
                "carrier",
                say("Carrier"),
                "select",
                wanted,
                choices=[(each.wp_code, f"{each.wp_code} {each.name}") for each in carriers],
            ),
            Field("shop", say("Shop"), placeholder=say("all shops"), length_max=64),
            Field(
                "numbers",
                say("Numbers, one on a line"),
                "textarea",
                is_required=True,
                length_max=FORM_BYTES_MAX,
                has_focus=bool(wanted),
            ),
        ],
        title=say("Load numbers"),
        is_folded=not wanted,
    )


def shown_area(context: Context, area: ServiceArea) -> str:
    say, provinces = context.say, listed(context.say, area.provinces)
    if area.kind is AreaKind.ALL:
        return say("everywhere")
    if area.kind is AreaKind.ONLY:
        return say("only to {provinces}", provinces=provinces)
    return say("everywhere but to {provinces}", provinces=provinces)


def carrier_form(context: Context, carrier: Carrier | None) -> Form:
    """The form that adds a carrier, or changes one."""
    say, area = context.say, carrier.area if carrier else ServiceArea()
    code = Field("code", say("Carrier code"), is_required=True, length_max=32, placeholder="YTO")
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


def _pool_cells(context: Context, pool: Pool | None, most: int, pace: float | None) -> list[Cell]:
    """What a pool has left, and when it runs out; the pace of a shop's own pool is not known. Of
    each no more than `most` numbers were counted."""
    say, tone, lasts = context.say, "", Cell("")
    left, taken = (pool.left, pool.taken) if pool else (0, 0)
    if left < FEW_NUMBERS:
        tone = "bad" if left == 0 else "soon"
    if pace and left:
        days = left / pace
        tone = "soon" if days < SOON_DAYS and left < most else tone
        last = context.web.now() + timedelta(days=min(days, 36_500))
        day = last.strftime("%Y-%m-%d") + _more(left, most)
        lasts = Cell(say("for years") if days > _YEARS_DAYS else day)
    shown = [grouped(each) + _more(each, most) for each in (left, taken)]
    return [Cell(shown[0], "number", tone=tone), Cell(shown[1], "number"), lasts]


def _more(count: int, most: int) -> str:
    return "+" if count >= most else ""


async def numbers_act(context: Context) -> Response:
    say, lines = context.say, context.form.get("numbers", "").split()
    shop = context.form.get("shop", "").strip()
    if shop:
        # Numbers for an unknown shop could never be used, nor loaded again for another shop.
        await find_owner(context.database, OwnerKind.SHOP, shop)
    rejected: list[str] = []
    result = await add_numbers(
        context.database,
        context.form.get("carrier", ""),
        shop,
        lines,
        lambda each: rejected.append(f"{each.number}: {context.said(each.reason)}"),
        runtime=context.runtime,
    )
    text = say(
        "Numbers loaded: {loaded}, rejected: {rejected}.",
        loaded=grouped(result.loaded),
        rejected=grouped(result.rejected),
    )
    shown = say(" ").join([text, say("; ").join(rejected[:_REJECTED_SHOWN])]).strip()
    return await show_carriers(context, Notice(shown, "soon" if rejected else "good"))
