"""The log of all calls, one call's receipt, and the search field above every page."""

import re

from starlette.responses import Response

from tollway.carriers.waybill_list import WaybillFilter, waybills_page
from tollway.carriers.waybills import list_by_number
from tollway.consent.owners import credential_of, owners_page
from tollway.contract.operation import OwnerKind
from tollway.contract.receipt import Outcome, Receipt
from tollway.ledger import LedgerError
from tollway.ledger.account_list import AccountFilter, accounts_page
from tollway.ledger.accounts import find_account
from tollway.ledger.entries import amount_left, list_balances, top_up
from tollway.ledger.receipts import find_receipt
from tollway.ledger.request_log import CallFilter
from tollway.ledger.request_search import search_page
from tollway.operations.catalogue import title_of
from tollway.web.area import Context, address
from tollway.web.blocks import Field, Form, Link
from tollway.web.call_log import call_log
from tollway.web.operator.account_tabs import known_account
from tollway.web.operator.accounts import given_reason, reason_field
from tollway.web.page_errors import PageError
from tollway.web.receipts import receipt_blocks, wanted_receipt
from tollway.web.wording import amount, grouped, one_line, sentence

PATH = "/operator/requests"
_REQUEST_ID = re.compile(r"[0-9a-f]{26}")
ONE = "/operator/request"
REFUND = f"{ONE}/refund"
_SAID = {"refunded": sentence("The call is refunded.")}


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
    say, receipt = context.say, await wanted_receipt(context, None, context.query("id"))
    account = await find_account(context.database, receipt.account_id)
    blocks = [*context.reported(_SAID), *await receipt_blocks(context, receipt)]
    is_refundable = receipt.outcome is Outcome.CHARGED and receipt.refund is None
    if is_refundable and account.closed_at_s is None:
        blocks.append(_refund_form(context, receipt))
    return context.page(
        say(title_of(receipt.operation)),
        blocks,
        lead=f"{account.name} · {receipt.request_id}",
        crumbs=[Link(say("Requests"), PATH)],
        actions=[Link(say("Show account"), address("/operator/account", id=account.id))],
    )


def _refund_form(context: Context, receipt: Receipt) -> Form:
    say, cost = context.say, receipt.amount
    button = say("Refund {amount}", amount=amount(say, receipt.unit or "", cost))
    fields = [reason_field(context)]
    if cost > 1:
        button = say("Refund")
        part = Field(
            "amount", say("Amount"), "number", str(cost), is_required=True, least=1, most=cost
        )
        fields.insert(0, part)
    return Form(
        REFUND,
        button,
        fields,
        hidden={"id": receipt.request_id},
        title=say("Refund"),
        note=say(
            "The account gets back what the call cost, or a part of it, once. The receipt says so."
        ),
        is_line=True,
        is_folded=True,
    )


def _given_back(context: Context, receipt: Receipt) -> int:
    """The amount to refund: all that the call cost, or the part that was typed."""
    cost = receipt.amount
    if "amount" not in context.form:
        return cost
    wanted = context.whole_number("amount", context.say("Amount"), cost)
    if wanted < 1:
        raise PageError(
            400,
            "That is not possible",
            "The call cost {cost}: a refund is 1 to {cost}.",
            cost=grouped(cost),
        ).at("amount")
    return wanted


async def refund_act(context: Context) -> Response:
    say = context.say
    receipt = await wanted_receipt(context, None, context.form.get("id", ""))
    unit = receipt.unit
    if unit is None or receipt.outcome is not Outcome.CHARGED:
        raise PageError(409, "That is not possible", "The call was not charged.")
    given_back = _given_back(context, receipt)
    note = given_reason(context)
    account = await find_account(context.database, receipt.account_id)
    before = await amount_left(context.database, account.id, unit)
    context.confirm(
        say(
            "Refund request {request}? {account} has {before}. After this it has {after}. "
            "Reason: {reason}",
            request=receipt.request_id,
            account=account.name,
            before=amount(say, unit, before),
            after=amount(say, unit, before + given_back),
            reason=one_line(note),
        ),
        say("Refund {amount}", amount=amount(say, unit, given_back)),
        is_harmless=True,
    )
    await top_up(
        context.database,
        context.runtime,
        account.id,
        unit,
        given_back,
        note,
        refund_of=receipt.request_id,
    )
    return context.go(ONE, id=receipt.request_id, said="refunded")


async def search(context: Context) -> Response:
    """Redirects to what a text names: a receipt, an account, a shop or user, a waybill, the calls
    or waybills of an order, or the list of accounts or shops whose name matches."""
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
        if await list_by_number(context.database, text):
            return context.go("/operator/waybill", number=text)
        of_order = CallFilter(order_sn=text)
        if text and (await search_page(context.database, of_order, 1, "")).calls:
            return context.go(PATH, order=text)
        return await _list_of_matches(context, text)
    return context.go("/operator/account", id=account.id)


async def _list_of_matches(context: Context, text: str) -> Response:
    database, accounts = context.database, {"q": text}
    # A waybill stays when its call is not kept any more.
    if text and (await waybills_page(database, WaybillFilter(number=text), 1)).waybills:
        return context.go("/operator/waybills", number=text)
    if text and not await accounts_page(database, AccountFilter(text), "", 1):
        if await owners_page(database, text, ("", ""), 1):
            return context.go("/operator/shops", q=text)
        accounts["said"] = "nothing"
    return context.go("/operator/accounts", **accounts)
