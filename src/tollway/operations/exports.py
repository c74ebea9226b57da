"""Exports: all records of a window as one file of gzip JSON Lines, paid once and then streamed.

Making an export counts its records, takes the price for each started hundred, and answers an id.
The file can be read with that id for a day, as often as needed; nothing is stored for it. The id is
sealed: it names the account, the window and its expiry, and works for no other account. Records
stored after the payment must not be in the file, or it would be a free feed of new records.
"""

import asyncio
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Select,
    String,
    bindparam,
    select,
    tuple_,
)

from tollway.contract.envelope import encode_data
from tollway.contract.language import Phrase
from tollway.contract.operation import CallInfo
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charges import ActResult, Charge
from tollway.operations.subject import Priced, Services, Stream
from tollway.store.database import Transaction
from tollway.store.key_file import SealError
from tollway.webhooks.events import Event, record_event

RECORDS_PER_PRICE = 100
KEPT_S = 24 * 3600
_LINES_AT_ONCE = 1000
# The format of gzip, with its header and checksum.
_GZIP_BITS = 16 + zlib.MAX_WBITS


class Export(msgspec.Struct, frozen=True):
    """An export that is paid. `cursor` is where orders_changed goes on from; null for claims."""

    export_id: str
    records: int
    download_url: str
    expires_at: int
    cursor: str | None
    withholding_money: int


class Position(NamedTuple):
    """The position of a record in the list: its time, negated, and its id."""

    newest_first: int
    id: str


class Line(NamedTuple):
    position: Position
    text: bytes


class _Sealed(msgspec.Struct, array_like=True):
    window: list[Any]
    expires_at_s: int


def lines_after(*columns: Column[Any], of: Sequence[ColumnElement[bool]]) -> Select[Any]:
    """At most so many records of a window, after a position; the first two columns are their
    position. `lines_values` has the parameters, without those of `of`."""
    time, record_id = place = columns[:2]
    after = tuple_(bindparam("last", type_=BigInteger), bindparam("last_id", type_=String))
    return (
        select(*columns)
        .where(
            *of,
            time > bindparam("newest", type_=BigInteger),
            time <= bindparam("oldest", type_=BigInteger),
            tuple_(time, record_id) > after,
        )
        .order_by(*place)
        .limit(bindparam("most"))
    )


def lines_values(start: int, end: int, after: Position | None, most: int) -> dict[str, object]:
    last, last_id = after or (-(2**62), "")
    return {"newest": -end, "oldest": -start, "last": last, "last_id": last_id, "most": most}


# Reads the lines after a position, at most so many.
ReadLines = Callable[[Position | None, int], Awaitable[Sequence[Line]]]


def priced_export(
    services: Services,
    call: CallInfo,
    path: str,
    window: Sequence[Any],
    records: int,
    named: dict[str, str],
    cursor: str | None = None,
) -> Priced:
    """The answer for an export of a window, and how many times its price is charged; `named` are
    the other parameters of its file."""
    expires_at_s = services.runtime.at_s() + KEPT_S
    sealed = services.vault.sealer.seal(
        msgspec.json.encode(_Sealed([*window], expires_at_s)), _context(call, path)
    )
    export_id = urlsafe_b64encode(sealed).decode().rstrip("=")
    query = urlencode({**named, "export_id": export_id})
    hundreds = paid_hundreds(records)
    answer = Export(
        export_id,
        records,
        f"{services.public_address}{path}?{query}",
        expires_at_s,
        cursor,
        call.price * hundreds,
    )
    return Priced(hundreds, encode_data(answer), partial(_report, services, answer))


async def _report(
    services: Services, answer: Export, transaction: Transaction, charge: Charge
) -> ActResult:
    """Notifies the account's webhooks of an export, in the transaction that charges for it."""
    made_as = msgspec.structs.asdict(answer)
    del made_as["withholding_money"]
    data = {"request_id": charge.request_id, "operation": charge.operation, **made_as}
    event = Event(charge.account_id, "export.ready", f"export:{charge.request_id}", data)
    await record_event(transaction, services.runtime, event)
    return ActResult(encode_data(answer), is_paid=True)


def paid_hundreds(records: int) -> int:
    """How many times the price is charged: at least once, as for an empty page."""
    return max(1, -(-records // RECORDS_PER_PRICE))


def window_of(services: Services, call: CallInfo, path: str, export_id: str) -> list[Any]:
    """The window of an export that this account has paid for."""
    try:
        sealed = urlsafe_b64decode(export_id + "=" * (-len(export_id) % 4))
        content = services.vault.sealer.open(sealed, _context(call, path))
    except (ValueError, SealError):
        raise not_an_export() from None
    export = msgspec.json.decode(content, type=_Sealed)
    if services.runtime.at_s() >= export.expires_at_s:
        raise _unfit("export_id", Phrase("it has expired", "已过期"))
    return export.window


def _context(call: CallInfo, path: str) -> bytes:
    return msgspec.json.encode(("export", call.account_id, path))


def _unfit(field: str, problem: Phrase) -> Refusal:
    expected = Phrase("what the export and its lines say", "导出及其各行给出的值")
    return Refusal(Reason.PARAMETER_INVALID, field=field, problem=problem, expected=expected)


def not_an_export() -> Refusal:
    """For an `export_id` that is not the account's, or not of the shop that is named with it."""
    return _unfit("export_id", Phrase("it is no export of yours", "不是您的导出"))


def not_a_line() -> Refusal:
    """For an `after` that no record has."""
    return _unfit("after", Phrase("no record of the export has it", "导出中没有该记录"))


def changed_line() -> Refusal:
    """For an `after` whose position in the list may have changed: lines would be left out."""
    return _unfit(
        "after",
        Phrase(
            "the record changed since the export: name the line before it, or leave it out",
            "该记录在导出后已变更：请改用它的前一行，或不填",
        ),
    )


def stream_of(read: ReadLines, after: Position | None, lines_max: float = inf) -> Stream:
    """The lines after a position, compressed. Each piece ends with a whole line, so that a client
    can read what arrived before a connection broke, and ask for the rest."""

    async def pieces() -> AsyncGenerator[bytes, None]:
        packer, position = zlib.compressobj(6, zlib.DEFLATED, _GZIP_BITS), after
        left = lines_max
        while left > 0 and (lines := await read(position, int(min(left, _LINES_AT_ONCE)))):
            left -= len(lines)
            text = b"".join(line.text for line in lines)
            # Not on the event loop, where other calls would wait for it.
            yield await asyncio.to_thread(_packed, packer, text)
            position = lines[-1].position
        yield packer.flush()

    return Stream("application/gzip", pieces())


def _packed(packer: Any, text: bytes) -> bytes:
    return bytes(packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH))
