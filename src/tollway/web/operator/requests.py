"""The log of all calls, one call's receipt, and the search field above every page."""

import re

from starlette.responses import Response

from tollway.carriers import CarrierError
from tollway.carriers.waybills import Waybill, find_by_number
from tollway.consent.owners import credential_of
from tollway.contract.operation import OwnerKind
from tollway.ledger import LedgerError
from tollway.ledger.accounts import find_account
from tollway.ledger.entries import list_balances
from tollway.ledger.receipts import find_receipt
from tollway.operations.catalogue import title_of
from tollway.web.area import Context, address
from tollway.web.blocks import Link
from tollway.web.call_log import call_log
from tollway.web.operator.tables import known_account
from tollway.web.receipts import receipt_blocks, wanted_receipt

PATH = "/operator/requests"
_REQUEST_ID = re.compile(r"[0-9a-f]{26}")
ONE = "/operator/request"


async def show_requests(context: Context) -> Response:
    say, wanted = context.say, context.query("account")
    account_id, units, lead = "", [], ""
    if wanted:
        account = await known_account(context, wanted)
        account_id, lead = account.id, account.name
        units = [each.unit for each in await list_balances(context.database, account.id)]
    kept = {"account": account_id} if account_id else {}
    table = await call_log(context, PATH, account_id, units, kept=kept)
    return context.page(say("Requests"), [table], lead=lead)


async def show_request(context: Context) -> Response:
    say, receipt = context.say, await wanted_receipt(context, None)
    account = await find_account(context.database, receipt.account_id)
    return context.page(
        say(title_of(receipt.operation)),
        await receipt_blocks(context, receipt, ONE),
        lead=f"{account.name} · {receipt.request_id}",
        crumbs=[Link(say("Requests"), PATH)],
        actions=[Link(say("Show account"), address("/operator/account", id=account.id))],
    )


async def search(context: Context) -> Response:
    """Where a text leads: a receipt, an account, a shop or user, a waybill, or the list of accounts
    that match."""
    text = context.query("q")
    is_id = _REQUEST_ID.fullmatch(text) is not None
    if is_id or (text and await find_receipt(context.database, None, text) is not None):
        return context.go(ONE, id=text)
    try:
        account = await find_account(context.database, text)
    except LedgerError:
        for kind in OwnerKind:
            if await credential_of(context.database, kind, text) is not None:
                return context.go("/operator/shop", kind=kind, shop=text)
        if (waybill := await _waybill(context, text)) is not None:
            return context.go("/operator/waybill", number=text, carrier=waybill.wp_code)
        return context.go("/operator/accounts", q=text)
    return context.go("/operator/account", id=account.id)


async def _waybill(context: Context, number: str) -> Waybill | None:
    """The waybill with this number, if there is one and no other carrier has the same."""
    try:
        return (await find_by_number(context.database, number)).waybill
    except CarrierError:
        return None
