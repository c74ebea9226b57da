"""What an account had, was given and spent in one month."""

from datetime import datetime, timedelta

from starlette.responses import Response

from tollway.ledger.statements import Statement, month_span_ms, statement_of
from tollway.operations.catalogue import BY_NAME
from tollway.web.account_parts import unit_name
from tollway.web.area import Context, address
from tollway.web.blocks import Block, Cell, Column, Empty, Field, Filters, Link, Notice, Table
from tollway.web.operator.accounts import ONE, PATH, find_wanted
from tollway.web.page_errors import PageError

STATEMENT = f"{ONE}/statement"
_MONTHS = 13


async def show_statement(context: Context) -> Response:
    say, account = context.say, await find_wanted(context)
    months = _latest_months(context)
    month = context.query("month") or months[0]
    try:
        span_ms = month_span_ms(month, context.services.settings.zone)
    except ValueError:
        raise PageError(400, "That is no month", "Choose one of the list.") from None
    made = await statement_of(context.database, account.id, span_ms, "statement")
    choices = [(each, each) for each in sorted({month, *months}, reverse=True)]
    filters = Filters(
        STATEMENT, [Field("month", say("Month"), "select", month, choices)], {"id": account.id}
    )
    blocks: list[Block] = [_balances(context, made, filters), _operations(context, made)]
    if not made.is_complete:
        deleted = say("Entries of this month were deleted: the sums are not all of it.")
        blocks.insert(0, Notice(deleted, "soon"))
    crumbs = [Link(say("Accounts"), PATH), Link(account.name, address(ONE, id=account.id))]
    return context.page(say("Statement"), blocks, crumbs=crumbs, is_printable=True)


def _latest_months(context: Context) -> list[str]:
    first = datetime.fromtimestamp(context.now_s, context.services.settings.zone).replace(day=1)
    months = []
    for _ in range(_MONTHS):
        months.append(f"{first:%Y-%m}")
        first = (first - timedelta(days=1)).replace(day=1)
    return months


def _balances(context: Context, made: Statement, filters: Filters) -> Table:
    say = context.say
    return Table(
        [
            Column(say("Balance")),
            Column(say("At the beginning"), "number"),
            Column(say("Topped up"), "number"),
            Column(say("Corrected"), "number"),
            Column(say("Charged"), "number"),
            Column(say("Held"), "number"),
            Column(say("At the end"), "number"),
        ],
        [
            [
                Cell(unit_name(context, each.unit)),
                context.number(each.before),
                context.number(each.topped_up),
                context.number(each.corrected),
                context.number(each.charged),
                context.number(each.held),
                context.number(each.after),
            ]
            for each in made.units
        ],
        Empty(say("There are no entries: the first top-up makes one.")),
        filters=filters,
    )


def _operations(context: Context, made: Statement) -> Table:
    say = context.say
    rows = []
    for each in made.operations:
        operation = BY_NAME.get(each.operation)
        rows.append(
            [
                Cell(say(operation.title) if operation else each.operation),
                context.number(each.calls),
                context.amount(each.unit, each.charged),
            ]
        )
    columns = [Column(say("Operation")), Column(say("Calls"), "number")]
    columns.append(Column(say("Charged"), "number"))
    return Table(columns, rows, Empty(say("Nothing was charged.")), title=say("By operation"))
