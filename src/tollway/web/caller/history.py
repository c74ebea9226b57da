"""The records of an account's calls: the log, receipts, the ledger, and a month's statement."""

from starlette.responses import Response

from tollway.ledger.entries import list_balances
from tollway.ledger.request_log import LoggedCall
from tollway.operations.catalogue import title_of
from tollway.web.area import Context, address
from tollway.web.blocks import Link
from tollway.web.call_log import (
    call_log,
    chosen_filters,
    has_unread_filter,
    wanted_calls,
    wanted_page,
)
from tollway.web.caller.home import PATH, account_id, own_account
from tollway.web.ledger_parts import ledger_file, ledger_page, statement_page
from tollway.web.lists import CSV_ROWS_MAX, CSV_STEP, before_request, csv_file
from tollway.web.receipts import receipt_blocks, wanted_receipt

REQUESTS = f"{PATH}/requests"
ONE = f"{PATH}/request"
LEDGER = f"{PATH}/ledger"
STATEMENT = f"{PATH}/statement"
# A filter may match nothing in a long log: without this limit, one file could hold up other
# readers for minutes.
_CSV_STEPS_MAX = 2 * CSV_ROWS_MAX // CSV_STEP
_CSV_COLUMNS = (
    *("request_id", "at", "operation", "outcome", "code", "reason", "amount", "unit", "more"),
    "at_ms",
)


async def _units(context: Context) -> list[str]:
    return [e.unit for e in await list_balances(context.database, account_id(context.person))]


async def show_requests(context: Context) -> Response:
    own = account_id(context.person)
    links = [Link("CSV", address(f"{REQUESTS}.csv", **chosen_filters(context)))]
    table = await call_log(context, REQUESTS, own, await _units(context), kept={}, links=links)
    return context.page(context.say("Requests"), [table])


async def requests_csv(context: Context) -> Response:
    if has_unread_filter(context):
        # A file cannot say that a filter was ignored, so show the page, which marks it.
        refused = await show_requests(context)
        refused.status_code = 400
        return refused
    wanted, units = wanted_calls(context, account_id(context.person)), await _units(context)
    columns = {each: each for each in _CSV_COLUMNS}
    found: list[LoggedCall] = []
    before = before_request(context)
    async with context.web.making_file():
        for _ in range(_CSV_STEPS_MAX):
            page = await wanted_page(context, wanted, units, CSV_STEP, before)
            found += page.calls
            before = page.before
            if not before or len(found) >= CSV_ROWS_MAX:
                break
        return await csv_file(context, "requests.csv", columns, found, before)


async def show_request(context: Context) -> Response:
    say, own = context.say, account_id(context.person)
    receipt = await wanted_receipt(context, own, context.query("id"))
    return context.page(
        say(title_of(receipt.operation)),
        await receipt_blocks(context, receipt),
        lead=receipt.request_id,
        crumbs=[Link(say("Requests"), REQUESTS)],
    )


async def search(context: Context) -> Response:
    return context.go(ONE, id=context.query("q"))


async def show_ledger(context: Context) -> Response:
    return await ledger_page(context, account_id(context.person), PATH)


async def show_statement(context: Context) -> Response:
    crumbs = [Link(context.say("Ledger"), LEDGER)]
    return await statement_page(context, await own_account(context), PATH, crumbs)


async def ledger_csv(context: Context) -> Response:
    return await ledger_file(context, account_id(context.person))
