"""The statement of a month that operators and callers both see: what an account had, was given and
spent."""

from datetime import timedelta

from starlette.responses import Response

from tollway.ledger.accounts import Account
from tollway.ledger.statements import Statement, month_span_ms, statement_of
from tollway.operations.catalogue import title_of
from tollway.web.account_parts import unit_name
from tollway.web.area import Context
from tollway.web.blocks import Block, Cell, Empty, Field, Filters, Link, Table
from tollway.web.page_errors import PageError
from tollway.web.wording import sentences

_MONTHS = 13


async def statement_page(
    context: Context, account: Account, path: str, kept: dict[str, str], crumbs: list[Link]
) -> Response:
    """Of the month that the reader chose, or this one; `kept` is what the page's address needs. On
    paper, too, it says whose it is and of which month."""
    say, months = context.say, _latest_months(context)
    month = context.query("month") or months[0]
    try:
        span_ms = month_span_ms(month, context.services.settings.zone)
    except ValueError:
        raise PageError(400, "That is no month", "Choose one of the list.") from None
    # It may take long, and needs no slot of a page meanwhile.
    async with context.web.aside():
        made = await statement_of(context.database, account.id, span_ms, f"statement {account.id}")
    choices = [(each, each) for each in sorted({month, *months}, reverse=True)]
    filters = Filters(path, [Field("month", say("Month"), "select", month, choices)], kept)
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
    titles = sentences(
        *("Balance", "At the beginning", "Topped up", "Refunded", "Corrected", "Charged", "Held"),
        "At the end",
    )
    return Table(
        [*map(say, titles)],
        [
            [
                Cell(unit_name(context, each.unit)),
                context.number(each.before),
                context.number(each.topped_up),
                context.number(each.refunded),
                context.number(each.corrected),
                context.number(each.charged),
                context.number(each.held),
                context.number(each.after),
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
