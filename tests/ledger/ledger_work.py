"""What the calls of the ledger's machine do: a stand-in for the operations' handlers."""

from functools import partial

from sqlalchemy import bindparam, select

from tests.ledger import ledger_calls
from tests.support.any_rows import ADD
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charges import Act, ActResult, Charge
from tollway.ledger.holds import capture, release, reserve
from tollway.pipeline.call import Call
from tollway.store.database import Row, Transaction
from tollway.store.query import Query
from tollway.store.schema.ledger import hold

_HOLDS = Query(
    select(hold.c.id, hold.c.state, hold.c.request_id)
    .where(hold.c.account_id == bindparam("of_account"), hold.c.id.like(bindparam("ids")))
    .order_by(hold.c.id)
)


class AsMeantError(Exception):
    """A call failed as it asked for."""


def perform(call: Call) -> None:
    what, number = call.request.what, call.request.number
    if what == ledger_calls.BREAK:
        raise AsMeantError
    if what == ledger_calls.DATA:
        call.data = call.request_id.encode()
    elif what in ledger_calls.ERRANDS:
        call.act = _errand(what, number)
    else:
        call.act = partial(_deed, what)


async def _deed(what: str, transaction: Transaction, charge: Charge) -> ActResult:
    if what != ledger_calls.FREE:
        await transaction.execute(ADD, product_id=charge.request_id)
    if what == ledger_calls.FAIL:
        raise AsMeantError
    replay_of = ledger_calls.EARLIER if what == ledger_calls.FREE else None
    return ActResult(charge.request_id.encode(), what != ledger_calls.FREE, replay_of=replay_of)


def _errand(what: str, number: int) -> Act:
    """Sets credits aside, asks another system, and then charges them or gives them back."""

    async def holds(transaction: Transaction, charge: Charge) -> list[Row]:
        ids = f"{number}.%"
        return list(await transaction.fetch_all(_HOLDS, of_account=charge.account_id, ids=ids))

    async def set_out(transaction: Transaction, charge: Charge) -> ActResult:
        before = await holds(transaction, charge)
        last_id, state, request_id = before[-1] if before else (None, "released", None)
        if state == "captured":
            return ActResult(last_id.encode(), is_paid=False, replay_of=request_id)
        if state == "released":
            await reserve(transaction, charge, f"{number}.{len(before):03d}", charge.at_ms + 60_000)
        return ActResult(b"", is_paid=False, then=ask, is_held=state == "released")

    async def ask() -> Act:
        if what == ledger_calls.SILENT:
            raise Refusal(Reason.CARRIER_SILENT, cost=0)
        return come_back

    async def come_back(transaction: Transaction, charge: Charge) -> ActResult:
        hold_id, state, request_id = (await holds(transaction, charge))[-1]
        captured = None
        if state == "held" and what == ledger_calls.TAKEN:
            made = await capture(transaction, charge.account_id, hold_id, charge.at_ms)
            state, captured = "captured", made.amount
        elif state == "held":
            await release(transaction, charge.account_id, hold_id, charge.at_ms)
            state = "released"
        if state == "released":
            return ActResult(b"refused", is_paid=False)
        replay_of = None if request_id == charge.request_id else request_id
        return ActResult(hold_id.encode(), is_paid=False, captured=captured, replay_of=replay_of)

    return set_out
