"""What happened: the ledger, the calls, and the receipt of one of them."""

import heapq
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Annotated

import msgspec
from sqlalchemy import bindparam, select

from tollway.contract.fields import Field, Text, Whole
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.receipt import Receipt
from tollway.ledger.entries import Entry, list_balances, newest_entries
from tollway.ledger.receipts import find_receipt
from tollway.ledger.refused_calls import CHARGED_AFTER_ALL, MAY_BE_CHARGED, RefusedCall
from tollway.operations.account_api.balance import UNITS, unknown_unit
from tollway.operations.account_api.operation import (
    NOT_OURS,
    AccountCall,
    AccountDependencies,
    endpoint,
    from_page_before,
)
from tollway.store.database import Reader
from tollway.store.query import Query
from tollway.store.schema.ledger import entry, refused_call

_MOST = 2**62
_PAGE = Whole(1, 100)


class EntriesRequest(msgspec.Struct, frozen=True):
    unit: Annotated[
        str, Field(Text(max_length=128), "The balance: credits, or calls: and an operation.")
    ] = "credits"
    before: Annotated[
        int,
        Field(
            Whole(1, _MOST),
            "Only entries with a smaller number; for the next page.",
            other_spelling="next_before",
        ),
    ] = _MOST
    limit: Annotated[int, Field(_PAGE, "Entries per page; 50 if left out.")] = 50


class LedgerEntry(msgspec.Struct, frozen=True):
    """One entry. `amount` is what became available: a charge is negative."""

    number: int
    kind: str
    amount: int
    balance_after: int
    at_ms: int
    operation: str | None
    request_id: str | None
    token_id: str | None
    note: str | None


class Entries(msgspec.Struct, frozen=True):
    """The newest first. `next_before` is null on the last page."""

    entries: list[LedgerEntry]
    next_before: int | None


async def _check_unit(reader: Reader, account_id: str, unit: str) -> None:
    """Refuses an unknown unit; that of an uninstalled package is known while it has a balance."""
    if unit in UNITS:
        return
    if unit not in [each.unit for each in await list_balances(reader, account_id)]:
        raise unknown_unit()


@endpoint("entries", "The ledger of one balance")
async def _entries(
    parts: AccountDependencies, request: EntriesRequest, call: AccountCall
) -> Entries:
    await _check_unit(parts.database, call.account_id, request.unit)
    # Reads one more than it shows, to know whether another page follows.
    found = await newest_entries(
        parts.database, call.account_id, request.unit, request.limit + 1, request.before
    )
    shown = [
        LedgerEntry(*(getattr(each, name) for name in LedgerEntry.__struct_fields__))
        for each in found[: request.limit]
    ]
    return Entries(shown, shown[-1].number if len(found) > len(shown) else None)


class CallsRequest(msgspec.Struct, frozen=True):
    cursor: Annotated[
        str | None,
        Field(
            Text(max_length=2000),
            "The next_cursor of the page before.",
            other_spelling="next_cursor",
        ),
    ] = None
    limit: Annotated[int, Field(_PAGE, "Calls per page; 50 if left out.")] = 50


class ListedCall(msgspec.Struct, frozen=True):
    """One call; its receipt says more about it. `more` counts further calls with the same
    operation and reason in the same minute, which are not listed."""

    request_id: str
    at_ms: int
    operation: str
    code: int
    reason: str
    amount: int
    unit: str | None
    is_test: bool
    more: int = 0


class Calls(msgspec.Struct, frozen=True):
    """The newest first. `next_cursor` is null on the last page."""

    requests: list[ListedCall]
    next_cursor: str | None


class _Cursor(msgspec.Struct, array_like=True):
    """How far each of the merged lists was read. It comes back from outside, so it is limited to
    numbers and texts that a database accepts."""

    numbers: dict[str, Annotated[int, msgspec.Meta(ge=0, le=_MOST)]]
    before: Annotated[str, msgspec.Meta(max_length=64, pattern="^[0-9a-z~]*$")]


_AFTER_ALL = "~"
_before = (
    refused_call.c.account_id == bindparam("of_account"),
    refused_call.c.request_id < bindparam("before"),
)
_REFUSED = Query(
    lambda: (
        select(*(refused_call.c[name] for name in RefusedCall.__struct_fields__))
        .where(*_before)
        .order_by(refused_call.c.request_id.desc())
        .limit(bindparam("count"))
    )
)
_CHARGED = Query(
    lambda: (
        select(refused_call.c.request_id)
        .join(entry, CHARGED_AFTER_ALL)
        .where(*_before, refused_call.c.request_id >= bindparam("last"))
    )
)


async def _charged_of(
    reader: Reader, account_id: str, before: str, refused: Sequence[RefusedCall]
) -> set[str]:
    """Those that were charged after all: the ledger lists them, so they must not appear twice."""
    if all(each.reason not in MAY_BE_CHARGED for each in refused):
        return set()
    last = refused[-1].request_id
    rows = await reader.fetch_all(_CHARGED, of_account=account_id, before=before, last=last)
    return {request_id for (request_id,) in rows}


def _read_cursor(text: str | None) -> _Cursor:
    if text is None:
        return _Cursor({}, _AFTER_ALL)
    try:
        return msgspec.json.decode(urlsafe_b64decode(text.encode()), type=_Cursor)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        raise Refusal(
            Reason.PARAMETER_INVALID,
            field="cursor",
            problem=NOT_OURS,
            expected=from_page_before("next_cursor"),
        ) from None


@endpoint("requests", "The calls of the account")
async def _calls(parts: AccountDependencies, request: CallsRequest, call: AccountCall) -> Calls:
    database, account_id, count = parts.database, call.account_id, request.limit
    cursor = _read_cursor(request.cursor)
    span = {"of_account": account_id, "before": cursor.before, "count": count + 1}
    refused = [RefusedCall(*row) for row in await database.fetch_all(_REFUSED, **span)]
    charged = await _charged_of(database, account_id, cursor.before, refused)
    lists: list[Sequence[Entry | RefusedCall]] = [refused]
    for balance in await list_balances(database, account_id):
        unit, before = balance.unit, cursor.numbers.get(balance.unit, _MOST)
        lists.append(await newest_entries(database, account_id, unit, count + 1, before))
    listed: list[ListedCall] = []
    merged = heapq.merge(*lists, key=lambda each: -each.at_ms)
    is_more = False
    for each in merged:
        if len(listed) == count:
            is_more = True
            break
        if isinstance(each, Entry):
            cursor.numbers[each.unit] = each.number
            if each.kind == "charge":
                listed.append(_charged(each))
        else:
            cursor.before = each.request_id
            if each.request_id not in charged:
                listed.append(_other(each))
    is_more = is_more or any(len(each) > count for each in lists)
    text = urlsafe_b64encode(msgspec.json.encode(cursor)).decode() if is_more else None
    return Calls(listed, text)


def _charged(charge: Entry) -> ListedCall:
    return ListedCall(
        charge.request_id or "",
        charge.at_ms,
        charge.operation or "",
        0,
        "SUCCESS",
        -charge.amount,
        charge.unit,
        is_test=False,
    )


def _other(each: RefusedCall) -> ListedCall:
    return ListedCall(
        each.request_id,
        each.at_ms,
        each.operation,
        each.code,
        each.reason,
        0,
        None,
        is_test=bool(each.is_test),
        more=each.more,
    )


class ReceiptRequest(msgspec.Struct, frozen=True):
    request_id: Annotated[str, Field(Text(max_length=64), "The X-Request-Id of the call.")]


@endpoint("receipt", "The receipt of a call", Reason.RECEIPT_UNKNOWN)
async def _receipt(
    parts: AccountDependencies, request: ReceiptRequest, call: AccountCall
) -> Receipt:
    found = await find_receipt(parts.database, call.account_id, request.request_id, call.language)
    if found is None or not call.sees(found.operation):
        raise Refusal(Reason.RECEIPT_UNKNOWN)
    return found


ENDPOINTS = (_entries, _calls, _receipt)
