"""The waybills that were asked for. At most one is in force under a natural key."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import Integer, bindparam, func, literal_column, select

from tollway.carriers import CarrierError
from tollway.carriers.carrier_links import SETTLE_AFTER_S_MAX
from tollway.carriers.vault import Vault
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import record_act
from tollway.store.database import Database, Reader, Row, Transaction, transactional
from tollway.store.many_rows import inserts
from tollway.store.query import Query, changed, equals, of_many
from tollway.store.schema.carriers import IN_FORCE, waybill

# A second more than a message may take to arrive: times are rounded up.
CHANGING_S_MAX = SETTLE_AFTER_S_MAX + 1


class WaybillKey(NamedTuple):
    """The natural key: what a caller means by "the same waybill"."""

    account_id: str
    owner_id: str
    order_sn: str
    wp_code: str

    def context(self, object_id: str) -> bytes:
        """What the seal of one waybill is bound to."""
        return msgspec.json.encode((*self, object_id))


class Waybill(msgspec.Struct, frozen=True):
    """A waybill, without anything personal."""

    account_id: str
    object_id: str
    owner_id: str
    order_sn: str
    wp_code: str
    state: str
    number: str | None
    price: int
    request_id: str | None
    hold_id: str | None
    asked_at_s: int
    issued_at_s: int | None
    cancelled_at_s: int | None = None
    refusal: str | None = None
    parent_number: str | None = None
    doubtful: str | None = None
    printed_at_s: int | None = None
    changing_until_s: int | None = None

    @property
    def key(self) -> WaybillKey:
        return WaybillKey(self.account_id, self.owner_id, self.order_sn, self.wp_code)

    @property
    def context(self) -> bytes:
        return self.key.context(self.object_id)

    def changing_for_s(self, now_s: int) -> int:
        """How long a message about another receiver may still arrive. One that is dated later than
        any may be was sent while the clock was ahead: it does not count."""
        left_s = (self.changing_until_s or 0) - now_s
        return left_s if 0 < left_s <= CHANGING_S_MAX else 0


class StoredWaybill(NamedTuple):
    """A waybill, and its stored content, which is empty once its receiver is erased."""

    waybill: Waybill
    sealed: bytes

    def print_data(self, vault: Vault) -> str:
        """What the caller gets: the carrier's own text if there is one."""
        text = self._opened(vault)
        return _both(text).carrier if text.startswith(_BOTH) else text

    def own_print_data(self, vault: Vault) -> str:
        """The print data of this gateway, from which it draws labels."""
        text = self._opened(vault)
        return _both(text).own if text.startswith(_BOTH) else text

    def refuse_erased(self) -> None:
        """Refuses a call that needs the receiver if it is erased."""
        if not self.sealed:
            raise Refusal(Reason.RECEIVER_ERASED, number=self.waybill.number or "")

    def _opened(self, vault: Vault) -> str:
        if not self.sealed:
            raise CarrierError(
                "The receiver of waybill {number} was erased: it has no label any more.",
                number=self.waybill.number,
            )
        return vault.open(self.sealed, self.waybill.context)


class PrintDataOfBoth(msgspec.Struct, frozen=True):
    """The carrier's own print data, and that of this gateway."""

    carrier: str
    own: str


_BOTH = '{"carrier":'


def _both(text: str) -> PrintDataOfBoth:
    return msgspec.json.decode(text, type=PrintDataOfBoth)


WAYBILL_COLUMNS = tuple(waybill.c[name] for name in Waybill.__struct_fields__)
WHOLE = select(*WAYBILL_COLUMNS, waybill.c.sealed)
_IN_FORCE = Query(
    lambda: WHOLE.where(
        *(waybill.c[name] == bindparam(f"of_{name}") for name in WaybillKey._fields),
        # A literal, not a parameter: otherwise the planner does not use the partial index.
        literal_column(IN_FORCE),
    )
)
_CANCELLED = Query(
    lambda: WHOLE.where(
        equals(waybill, request_id="of_request", account_id="of_account"),
        waybill.c.state == "cancelled",
    )
)
_OWN = Query(lambda: WHOLE.where(equals(waybill, account_id="of_account", object_id="wanted")))
# Written so that the planner does one index lookup per key, whatever its statistics.
_KEYS_IN_FORCE = of_many(
    "SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM {wanted} "
    "WHERE (SELECT 1 FROM waybill WHERE account_id = value ->> 0 AND owner_id = value ->> 1 "
    "AND order_sn = value ->> 2 AND wp_code = value ->> 3 "
    "AND state IN ('pending', 'issued') LIMIT 1) = 1"
)
# A further parcel cannot be a parent: the first parcel is the parent of all.
_PARENT = Query(
    lambda: select(waybill.c.number).where(
        waybill.c.number == bindparam("wanted"),
        *(waybill.c[name] == bindparam(f"of_{name}") for name in ("account_id", "owner_id")),
        waybill.c.wp_code == bindparam("of_wp_code"),
        waybill.c.state == "issued",
        waybill.c.parent_number.is_(None),
    )
)
_BY_ID = Query(lambda: WHOLE.where(waybill.c.object_id == bindparam("wanted")))
_BY_NUMBER = Query(lambda: WHOLE.where(waybill.c.number == bindparam("wanted")))
_CANCEL = Query(
    lambda: (
        waybill.update()
        .where(waybill.c.object_id == bindparam("wanted"), waybill.c.state == "issued")
        .values(state="cancelled", cancelled_at_s=bindparam("at_s"))
    )
)
_PRINT = Query(
    lambda: changed(waybill, printed_at_s="at_s").where(
        waybill.c.object_id == bindparam("wanted"),
        waybill.c.state == "issued",
        waybill.c.printed_at_s.is_(None),
        waybill.c.changing_until_s.is_(None),
        func.length(waybill.c.sealed) > 0,
    )
)
_newest = (
    select(*WAYBILL_COLUMNS)
    .order_by(waybill.c.asked_at_s.desc(), waybill.c.object_id)
    .limit(bindparam("most", type_=Integer))
)
_NEWEST = Query(_newest)
_NEWEST_OF_ACCOUNT = Query(lambda: _newest.where(waybill.c.account_id == bindparam("of_account")))


async def find_in_force(reader: Reader, key: WaybillKey) -> StoredWaybill | None:
    values = {f"of_{name}": value for name, value in key._asdict().items()}
    row = await reader.fetch_one(_IN_FORCE, **values)
    return None if row is None else stored_waybill(row)


async def keys_in_force(reader: Reader, keys: Sequence[WaybillKey]) -> set[WaybillKey]:
    """The keys under which a waybill is in force."""
    rows = await reader.fetch_all(_KEYS_IN_FORCE, wanted=msgspec.json.encode(keys).decode())
    return {WaybillKey(*row) for row in rows}


async def find_own(reader: Reader, account_id: str, object_id: str) -> StoredWaybill | None:
    """A waybill of this account, in any state."""
    row = await reader.fetch_one(_OWN, of_account=account_id, wanted=object_id)
    return None if row is None else stored_waybill(row)


async def find_cancelled(reader: Reader, account_id: str, request_id: str) -> StoredWaybill | None:
    """The waybill that a request was issued, if it was cancelled since."""
    row = await reader.fetch_one(_CANCELLED, of_account=account_id, of_request=request_id)
    return None if row is None else stored_waybill(row)


async def is_parent(reader: Reader, number: str, key: WaybillKey) -> bool:
    """Whether the waybill with this number can be the parent of a further parcel under this key."""
    values = {"of_account_id": key.account_id, "of_owner_id": key.owner_id}
    row = await reader.fetch_one(_PARENT, wanted=number, of_wp_code=key.wp_code, **values)
    return row is not None


async def store_waybills(transaction: Transaction, stored: Sequence[StoredWaybill]) -> None:
    await transaction.put_rows(
        inserts(waybill),
        [(*msgspec.structs.astuple(each.waybill), each.sealed) for each in stored],
    )


async def find_by_id(reader: Reader, object_id: str) -> StoredWaybill:
    """The waybill with this object id, of any account and in any state."""
    row = await reader.fetch_one(_BY_ID, wanted=object_id)
    if row is None:
        raise _no_waybill(object_id)
    return stored_waybill(row)


async def list_by_number(reader: Reader, number: str) -> list[StoredWaybill]:
    """The waybills with this number, by carrier: two carriers may have the same one."""
    rows = [stored_waybill(row) for row in await reader.fetch_all(_BY_NUMBER, wanted=number)]
    return sorted(rows, key=lambda each: each.waybill.wp_code)


async def find_by_number(reader: Reader, number: str, wp_code: str | None = None) -> StoredWaybill:
    """The waybill with this number, of the only carrier that has it, or of the named one."""
    rows = await list_by_number(reader, number)
    found = [each for each in rows if wp_code in (None, each.waybill.wp_code)]
    if not found:
        raise _no_waybill(number)
    if len(found) > 1:
        carriers = ", ".join(each.waybill.wp_code for each in found)
        raise CarrierError(
            "Several carriers have a waybill {number}: name one of {carriers}.",
            number=number,
            carriers=carriers,
        )
    return found[0]


def _no_waybill(number: str) -> CarrierError:
    return CarrierError(
        "There is no waybill {number}: `tollway waybill list` shows them.", number=number
    )


def refuse_several(order_sn: str, found: Sequence[Waybill]) -> None:
    """Refuses a decision about an order with several waybills: the operator has to name one."""
    if len(found) > 1:
        raise CarrierError(
            "Several waybills of order {order_sn} wait ({waybills}): name one of these ids.",
            order_sn=order_sn,
            waybills=", ".join(f"{each.object_id} of {each.wp_code}" for each in found),
        )


@transactional
async def cancel_waybill(
    transaction: Transaction, number: str, wp_code: str | None, runtime: Runtime
) -> Waybill:
    """Cancels a waybill: its key becomes free again, its number does not, its price stays paid."""
    found = (await find_by_number(transaction, number, wp_code)).waybill
    if not await transaction.execute(_CANCEL, wanted=found.object_id, at_s=runtime.at_s()):
        raise CarrierError("Waybill {number} is cancelled already.", number=number)
    cancelled = (await find_by_number(transaction, number, found.wp_code)).waybill
    subject = f"account {found.account_id}"
    await record_act(transaction, runtime, "waybill cancel", subject, before=found, after=cancelled)
    return cancelled


async def print_waybills(
    database: Database, found: Sequence[StoredWaybill], runtime: Runtime
) -> Sequence[StoredWaybill]:
    """The waybills as their labels show them; from now on their receivers cannot change. A receiver
    may be erased meanwhile: then there is no label. Every print by an operator is recorded."""
    is_done = all(each.waybill.printed_at_s or each.waybill.state != "issued" for each in found)
    if is_done and not runtime.by:
        return found

    async def work(transaction: Transaction) -> list[StoredWaybill]:
        printed = []
        # A fixed lock order prevents deadlocks.
        for each in sorted(found, key=lambda each: each.waybill.object_id):
            of = each.waybill
            await transaction.execute(_PRINT, wanted=of.object_id, at_s=runtime.at_s())
            now = await find_own(transaction, of.account_id, of.object_id)
            is_printed = now is not None and (
                now.waybill.state != "issued" or now.waybill.printed_at_s or not now.sealed
            )
            if now is None or not is_printed:
                raise CarrierError(
                    "The receiver of waybill {number} is being changed at its carrier: it has no "
                    "label until that is confirmed.",
                    number=of.number,
                )
            printed.append(now)
        for each in printed:
            if each.sealed:
                of = each.waybill
                subject, after = f"account {of.account_id}", {"number": of.number}
                await record_act(transaction, runtime, "waybill print", subject, after=after)
        by_id = {each.waybill.object_id: each for each in printed}
        return [by_id[each.waybill.object_id] for each in found]

    return await database.write(work)


async def list_waybills(reader: Reader, account_id: str | None, most: int) -> Sequence[Waybill]:
    """The newest waybills, of one account or of all."""
    if account_id is None:
        rows = await reader.fetch_all(_NEWEST, most=most)
    else:
        rows = await reader.fetch_all(_NEWEST_OF_ACCOUNT, of_account=account_id, most=most)
    return [Waybill(*row) for row in rows]


def stored_waybill(row: Row) -> StoredWaybill:
    *open_, sealed = row
    return StoredWaybill(Waybill(*open_), sealed)
