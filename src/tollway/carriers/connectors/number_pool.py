"""A pool of this gateway, spoken to like a carrier.

It lives as long as one transaction. A number is taken in the commit that stores its waybill, so
nothing here is ever uncertain.
"""

from sqlalchemy import bindparam, literal_column, select

from tollway.carriers.carriers import Carrier
from tollway.carriers.connectors.connector import (
    Cancelled,
    Declined,
    Issued,
    IssueOrder,
    OrderRef,
)
from tollway.carriers.pools import take_number
from tollway.contract.language import Phrase
from tollway.store.database import Transaction
from tollway.store.query import Query
from tollway.store.schema.carriers import waybill

_NO_NUMBERS = Phrase(
    "The carrier's waybill numbers are used up: load more numbers or choose another carrier.",
    "该快递公司的电子面单号已用完：请补充单号或更换快递公司。",
)
_FIND = Query(
    select(waybill.c.number).where(
        waybill.c.object_id == bindparam("of_task"),
        waybill.c.owner_id == bindparam("of_owner"),
        waybill.c.order_sn == bindparam("of_order"),
        waybill.c.wp_code == bindparam("of_carrier"),
        waybill.c.state == literal_column("'issued'"),
    )
)


class PoolConnector:
    """The pools of one carrier, in one transaction, for one caller's language."""

    def __init__(self, transaction: Transaction, carrier: Carrier, language: str) -> None:
        self._transaction = transaction
        self._carrier = carrier
        self._language = language

    async def issue(self, order: IssueOrder) -> Issued | Declined:
        province = order.recipient.address.province
        refusal = self._carrier.area.refusal(province, self._language)
        if refusal is not None:
            return Declined(refusal)
        number = await take_number(self._transaction, self._carrier.wp_code, order.ref.owner_id)
        if number is None:
            return Declined(_NO_NUMBERS.fill(self._language, {}))
        return Issued(number)

    async def look_up(self, order: OrderRef) -> Issued | None:
        row = await self._transaction.fetch_one(
            _FIND,
            of_task=order.task_id,
            of_owner=order.owner_id,
            of_order=order.order_sn,
            of_carrier=self._carrier.wp_code,
        )
        return None if row is None else Issued(row[0])

    async def cancel(self, order: OrderRef, number: str) -> Cancelled | Declined:  # noqa: ARG002
        # A number of a pool is never used again, so there is nobody to be told.
        return Cancelled(number)
