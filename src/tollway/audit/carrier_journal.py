"""Waybills against a carrier's own journal: what the carrier issued must be in force here.

The journal is a file with one JSON object per line (`event` issued or cancelled, `number`,
`object_id`, `owner_id`, `order_sn`); a carrier's statement can be converted into one. It is read
line by line; only the numbers in force are kept in memory.
"""

from collections.abc import Iterable

import msgspec
from sqlalchemy import bindparam, func, select

from tollway.audit.check import BREACHES_SHOWN_MAX, Breach, CheckFigures
from tollway.carriers import CarrierError
from tollway.store.database import Database
from tollway.store.query import Query, equals
from tollway.store.schema.carriers import waybill

JOURNAL_HOLDS = "what the carrier has issued is what is in force here"
_FIND = Query(
    lambda: select(waybill.c.account_id, waybill.c.state, waybill.c.number).where(
        equals(waybill, object_id="of_object", wp_code="of_carrier")
    )
)
_COUNT = Query(
    lambda: (
        select(func.count())
        .select_from(waybill)
        .where(
            waybill.c.wp_code == bindparam("of_carrier"),
            waybill.c.hold_id.is_not(None),
            waybill.c.state == "issued",
        )
    )
)


class Line(msgspec.Struct, frozen=True):
    """One event of the carrier's journal."""

    event: str
    object_id: str
    owner_id: str
    order_sn: str
    number: str = ""


async def audit_journal(
    database: Database, wp_code: str, lines: Iterable[bytes]
) -> tuple[CheckFigures, list[Breach]]:
    """Compares a journal with the waybills whose numbers the carrier issued itself."""
    in_force: dict[tuple[str, str, str], str] = {}
    breaches: list[Breach] = []
    read = 0
    for read, raw in enumerate(lines, 1):
        line = _line(read, raw)
        key = (line.object_id, line.owner_id, line.order_sn)
        if line.event == "issued":
            if key in in_force:
                difference = f"order {line.order_sn} has both {in_force[key]} and {line.number}"
                breaches.append(Breach("journal_issued_twice", None, None, difference))
            in_force[key] = line.number
        elif line.event == "cancelled" and in_force.get(key) == line.number:
            del in_force[key]
    matched = 0
    for (object_id, _, order_sn), number in in_force.items():
        row = await database.fetch_one(_FIND, of_object=object_id, of_carrier=wp_code)
        account_id, state, here = row or (None, "not there", None)
        matched += state == "issued" and here == number
        # Reconciliation will ask the carrier about a pending waybill.
        if state != "pending" and (state, here) != ("issued", number):
            difference = f"{number} of order {order_sn} is in the journal, but here {state} {here}"
            breaches.append(Breach("journal_differs", account_id, None, difference))
    row = await database.fetch_one(_COUNT, of_carrier=wp_code)
    assert row is not None
    if row[0] != matched:
        difference = f"{row[0]} waybills are issued here, {matched} of them are in the journal"
        breaches.append(Breach("journal_lacks", None, None, difference))
    figures = CheckFigures("journal", JOURNAL_HOLDS, read, len(breaches))
    return figures, breaches[:BREACHES_SHOWN_MAX]


def _line(number: int, raw: bytes) -> Line:
    try:
        return msgspec.json.decode(raw, type=Line)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise CarrierError(
            "Line {number} of the journal cannot be read: {why}.", number=number, why=str(error)
        ) from None
