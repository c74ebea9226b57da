"""An account's ledger as operators and its members see it: the entries of a balance, also as a
file, and the statement of a month, which says what the account had, was given and spent."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Unpack

import msgspec
from starlette.responses import Response

from tollway.ledger.accounts import Account
from tollway.ledger.entries import Entry, list_balances, newest_entries
from tollway.ledger.statements import Statement, month_span_ms, statement_of
from tollway.operations.catalogue import title_of
from tollway.web.account_parts import named_account, unit_name
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Block, Cell, Empty, Field, Filters, Link, MoreOfPage, Table
from tollway.web.lists import AFTER_ALL, CSV_ROWS_MAX, CSV_STEP, before_number, csv_file
from tollway.web.page_errors import PageError
from tollway.web.wording import sentence, titles

_MONTHS = 13
_ENTRY_KINDS = {
    "top_up": ("good", sentence("top-up")),
    "refund": ("good", sentence("refund")),
    "correction": ("soon", sentence("correction")),
    "charge": ("", sentence("charge")),
    "hold": ("soon", sentence("hold")),
    "release": ("", sentence("release")),
}

_CSV_COLUMNS = {
    "entry": "number",
    "at": "at",
    "kind": "kind",
    "amount": "amount",
    "balance": "balance_after",
    "operation": "operation",
    "request_id": "request_id",
    "note": "note",
    "at_ms": "at_ms",
}


async def ledger_page(
    context: Context, account_id: str, base: str, title: str = "", **more: Unpack[MoreOfPage]
) -> Response:
    """The newest entries of one balance; `base` is the prefix of the account's addresses."""
    say, path, named = context.say, f"{base}/ledger", named_account(context, account_id)
    units = [each.unit for each in await list_balances(context.database, account_id)]
    unit = context.query("unit") or next(iter(units), "credits")
    before = before_number(context)
    entries = await newest_entries(context.database, account_id, unit, PAGE_ROWS, before)
    choices = [(each, unit_name(context, each)) for each in units or [unit]]
    older = ""
    if len(entries) == PAGE_ROWS and entries[-1].number > 1:
        older = address(path, **named, unit=unit, before=entries[-1].number)
    table = Table(
        titles(say, "Entry", "When", "Kind", "Amount", "Balance", "What for", "Request"),
        [_entry_row(context, each) for each in entries],
        Empty(say("There are no entries: the first top-up makes one.")),
        filters=Filters(path, [Field("unit", say("Balance"), "select", unit, choices)], named),
        links=[
            Link(say("Statement"), address(f"{base}/statement", **named)),
            Link("CSV", address(f"{path}.csv", **named, unit=unit)),
        ],
        older=older,
        newest=address(path, **named, unit=unit) if before != AFTER_ALL else "",
        is_log=True,
    )
    return context.page(title or say("Ledger"), [table], **more)


def _entry_row(context: Context, entry: Entry) -> list[Cell]:
    is_refund = entry.kind == "top_up" and entry.request_id is not None
    tone, kind = _ENTRY_KINDS["refund" if is_refund else entry.kind]
    # What a person wrote; the notes of calls have ids of holds.
    note = entry.note if entry.kind in ("top_up", "correction") else ""
    operation = context.say(title_of(entry.operation)) if entry.operation else ""
    return [
        context.number(entry.number),
        context.log_time(entry.at_ms / 1000),
        Cell(context.say(kind), tone=tone),
        Cell(f"{entry.amount:+,}", "number"),
        context.number(entry.balance_after),
        Cell(note or operation),
        context.receipt(entry.request_id) if entry.request_id else Cell(""),
    ]


async def ledger_file(context: Context, account_id: str) -> Response:
    """The newest entries of one balance, as CSV."""
    unit, before = context.query("unit"), before_number(context)
    found: list[Entry] = []
    async with context.web.making_file():
        while len(found) < CSV_ROWS_MAX:
            entries = await newest_entries(context.database, account_id, unit, CSV_STEP, before)
            found += entries
            before = entries[-1].number if entries else 0
            if len(entries) < CSV_STEP:
                break
            # An embedded database answers at once: calls run in between.
            await asyncio.sleep(0)
        is_cut = bool(await newest_entries(context.database, account_id, unit, 1, before))
        older = str(before) if is_cut else ""
        return await csv_file(context, "ledger.csv", _CSV_COLUMNS, found, older)


async def statement_page(
    context: Context, account: Account, base: str, crumbs: Sequence[Link]
) -> Response:
    """The statement of the month that the reader chose, or of this month. A printout, too, says
    whose it is and for which month."""
    say, months = context.say, _latest_months(context)
    month = context.query("month") or months[0]
    try:
        span_ms = month_span_ms(month, context.services.settings.zone)
    except ValueError:
        raise PageError(400, "That is no month", "Choose one of the list.") from None
    # Reading it may take long, so it gives its page slot to others meanwhile.
    async with context.web.without_slot():
        made = await statement_of(context.database, account.id, span_ms, f"statement {account.id}")
    choices = [(each, each) for each in sorted({month, *months}, reverse=True)]
    chosen = Field("month", say("Month"), "select", month, choices)
    filters = Filters(f"{base}/statement", [chosen], named_account(context, account.id))
    blocks: list[Block] = [_balances(context, made, filters)]
    if made.is_complete:
        blocks.append(_operations(context, made))
    return context.page(
        say("Statement"), blocks, lead=f"{account.name} · {month}", crumbs=crumbs, is_printable=True
    )


def _latest_months(context: Context) -> list[str]:
    first = context.web.now().replace(day=1)
    months = []
    for _ in range(_MONTHS):
        months.append(f"{first:%Y-%m}")
        first = (first - timedelta(days=1)).replace(day=1)
    return months


def _balances(context: Context, made: Statement, filters: Filters) -> Table:
    say = context.say
    columns = titles(
        say,
        *("Balance", "At the beginning", "Topped up", "Refunded", "Corrected", "Charged", "Held"),
        "At the end",
    )
    return Table(
        columns,
        [
            [
                Cell(unit_name(context, each.unit)),
                *map(context.number, msgspec.structs.astuple(each)[1:]),
            ]
            for each in made.units
            if made.is_complete
        ],
        Empty(
            say("There are no entries: the first top-up makes one.")
            if made.is_complete
            else say("Entries of this month or later were deleted: there is no statement.")
        ),
        filters=filters,
    )


def _operations(context: Context, made: Statement) -> Table:
    say = context.say
    rows = [
        [
            Cell(say(title_of(each.operation))),
            context.number(each.calls),
            context.amount(each.unit, each.charged),
        ]
        for each in made.operations
    ]
    columns = [say("Operation"), say("Calls"), say("Charged")]
    return Table(columns, rows, Empty(say("Nothing was charged.")), title=say("By operation"))
