"""What is held until carriers answer, and the list of waybills with its filter."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from starlette.responses import Response

from tollway.carriers.carriers import list_carriers
from tollway.carriers.pending_waybills import pending_of_requests
from tollway.carriers.waybill_list import SCANNED_MAX, WaybillFilter, position_in, waybills_page
from tollway.carriers.waybills import Waybill
from tollway.contract.operation import OwnerKind
from tollway.ledger import LedgerError
from tollway.ledger.accounts import find_account, names_of
from tollway.ledger.holds import Hold, open_holds
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Block, Cell, Field, Filters, Notice, Table
from tollway.web.lists import TIMES, moment_ms, period_fields, plain_table
from tollway.web.wording import grouped, sentence, sentences, titles

PATH = "/operator/waybills"
WAYBILL = "/operator/waybill"
_CURE = sentence(
    "A carrier has not answered in time. The gateway asks it again, if its protocol allows that. "
    "If this stays, find out from the carrier what became of the order, and decide on the page of "
    "its waybill."
)
STATES = {
    "issued": ("good", sentence("issued")),
    "pending": ("soon", sentence("pending")),
    "refused": ("bad", sentence("refused")),
    "cancelled": ("", sentence("cancelled")),
}
_FILTERS = ("state", "carrier", "account", "number", *TIMES)


async def show_waybills(context: Context) -> Response:
    say, chosen = context.say, {name: context.query(name) for name in _FILTERS}
    table = await _waybills(context, chosen)
    # A list that is filtered or continued is all that its reader looks for.
    is_whole = not any(chosen.values()) and not context.query("before")
    holds = await _holds(context) if is_whole else []
    if holds:
        table = replace(table, title=say("All waybills"))
    return context.page(say("Waybills"), [*holds, table])


async def _waybills(context: Context, chosen: Mapping[str, str]) -> Table:
    say = context.say
    account_id, problem = await _account(context, chosen["account"])
    wanted = WaybillFilter(
        account_id,
        chosen["carrier"],
        chosen["state"],
        chosen["number"],
        (moment_ms(context, "since") or 0) // 1000,
        None if (until_ms := moment_ms(context, "until")) is None else until_ms // 1000,
    )
    before = position_in(context.query("before"))
    page = await waybills_page(context.database, wanted, PAGE_ROWS, before)
    none = say("No waybill is issued yet: a call of waybill issuing takes a number from a pool.")
    note = ""
    if page.before and len(page.waybills) < PAGE_ROWS:
        none = say("Nothing in this part of the list. Look at older waybills.")
        note = say(
            "Each page searches up to {count} waybills. To search further, show older ones.",
            count=grouped(SCANNED_MAX),
        )
    elif any(chosen.values()):
        none = say("No waybill matches.")
    return replace(
        await waybills_table(context, page.waybills, none),
        filters=await _filters(context, chosen, problem),
        note=note,
        older=address(PATH, **chosen, before=page.before) if page.before else "",
        newest=address(PATH, **chosen) if before else "",
        is_log=True,
    )


async def _account(context: Context, wanted: str) -> tuple[str, str]:
    """The id of the account that the filter names, and what is wrong with it."""
    if not wanted:
        return "", ""
    try:
        return (await find_account(context.database, wanted)).id, ""
    except LedgerError:
        return "", context.say("No account has this name or id: it filters nothing.")


async def _filters(context: Context, chosen: Mapping[str, str], problem: str) -> Filters:
    say = context.say
    states = [("", say("all")), *((name, say(text)) for name, (_, text) in STATES.items())]
    carriers = [
        (each.wp_code, f"{each.wp_code} {each.name}")
        for each in await list_carriers(context.database)
    ]
    account, number = say("Account"), say("Order or waybill number")
    return Filters(
        PATH,
        [
            Field("state", say("State"), "select", chosen["state"], states),
            Field(
                "carrier",
                say("Carrier"),
                "select",
                chosen["carrier"],
                [("", say("all")), *carriers],
            ),
            Field("account", account, value=chosen["account"], length_max=100, problem=problem),
            Field("number", number, value=chosen["number"], length_max=64),
            *period_fields(context),
        ],
    )


async def waybills_table(context: Context, waybills: Sequence[Waybill], none: str = "") -> Table:
    """Waybills, each with a link to its page; `none` says why there are none."""
    names = await names_of(context.database, {each.account_id for each in waybills})
    return plain_table(
        context,
        sentences("When", "Carrier", "Waybill number", "State", "Order", "Account", "Shop or user"),
        [_waybill_row(context, each, names) for each in waybills],
        "",
        none,
    )


def page_of(waybill: Waybill) -> str:
    """The address of a waybill's page: without a number, it is known by its id."""
    if waybill.number is None:
        return address(WAYBILL, id=waybill.object_id)
    return address(WAYBILL, number=waybill.number, carrier=waybill.wp_code)


def _waybill_row(context: Context, waybill: Waybill, names: Mapping[str, str]) -> list[Cell]:
    account = names.get(waybill.account_id, waybill.account_id)
    shop = address("/operator/shop", kind=OwnerKind.SHOP, shop=waybill.owner_id)
    page = page_of(waybill)
    return [
        context.log_time(waybill.asked_at_s),
        Cell(waybill.wp_code, "mono"),
        Cell(waybill.number or "–", "mono id", page if waybill.number else ""),
        shown_state(context, waybill),
        Cell(waybill.order_sn, "mono id", "" if waybill.number else page),
        Cell(account, href=address("/operator/account", id=waybill.account_id)),
        Cell(waybill.owner_id, "mono", shop),
    ]


def shown_state(context: Context, waybill: Waybill) -> Cell:
    tone, state = STATES[waybill.state]
    return Cell(context.say(state), tone=tone)


async def _holds(context: Context) -> list[Block]:
    """Credits held until a carrier has answered, and what to do if it does not; no block if there
    are none."""
    say, holds = context.say, await open_holds(context.database, PAGE_ROWS)
    if not holds:
        return []
    now_ms = context.now_s * 1000
    names = await names_of(context.database, {each.account_id for each in holds})
    pending = await pending_of_requests(context.database, [each.request_id for each in holds])
    of_hold = {each.hold_id: each for each in pending}
    rows = [
        _hold_row(context, each, names.get(each.account_id, each.account_id), of_hold.get(each.id))
        for each in holds
    ]
    columns = titles(say, "Account", "Order", "Held", "Deadline", "State", "Request")
    table = Table([*columns, ""], rows, title=say("Held until a carrier answers"))
    # Those with the earliest deadline come first.
    is_late = holds[0].deadline_at_ms < now_ms
    return [*([Notice(say(_CURE), "bad")] if is_late else ()), table]


def _hold_row(context: Context, held: Hold, account: str, waybill: Waybill | None) -> list[Cell]:
    say, is_late = context.say, held.deadline_at_ms < context.now_s * 1000
    order = "" if waybill is None else waybill.order_sn
    page = "" if waybill is None else page_of(waybill)
    return [
        Cell(account, href=address("/operator/account", id=held.account_id)),
        Cell(order, "mono", page),
        context.amount(held.unit, held.amount),
        context.time(held.deadline_at_ms / 1000),
        Cell(say("overdue"), tone="bad") if is_late else Cell(say("held"), tone="soon"),
        context.receipt(held.request_id),
        Cell(say("Decide"), "time", page, of=order) if is_late and page else Cell(""),
    ]
