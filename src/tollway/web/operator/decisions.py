"""Deciding about a waybill whose carrier does not say what became of it: it was issued with a
number, and is charged, or it was not, and what is held goes back; or its receiver stays, where a
change was not confirmed. `tollway reconcile --decide` does the same."""

from starlette.responses import Response

from tollway.carriers.receiver_changes import decide_kept
from tollway.carriers.reconciling import Outcome
from tollway.carriers.waybills import Waybill, find_by_id
from tollway.ledger.accounts import find_account
from tollway.ledger.entries import Balance, list_balances
from tollway.ledger.holds import Hold, find_hold
from tollway.web.area import Context
from tollway.web.blocks import Block, Columns, Field, Form, Notice
from tollway.web.operator.waybills import WAYBILL
from tollway.web.page_errors import PageError
from tollway.web.wording import amount, exact_time, sentence

DECIDE = f"{WAYBILL}/decide"
KEPT = f"{WAYBILL}/receiver-kept"
_ISSUED, _NOT_ISSUED = "issued", "not_issued"
SAID = {
    "issued": sentence("Done. What was held is charged, and the caller gets the waybill."),
    "not_issued": sentence("Done. What was held is given back, and the order can be sent again."),
    "kept": sentence("Done. The waybill keeps its receiver, and has a label again."),
    "settled": sentence("It was settled meanwhile by what its carrier said. Nothing was decided."),
}


async def _held_for(context: Context, waybill: Waybill) -> Hold | None:
    """What is held for a waybill that waits for its carrier."""
    if waybill.state != "pending" or waybill.hold_id is None:
        return None
    held = await find_hold(context.database, waybill.account_id, waybill.hold_id)
    return held if held is not None and held.state == "held" else None


async def decision_blocks(context: Context, waybill: Waybill) -> list[Block]:
    """The two decisions once the deadline has passed; before that, until when it is."""
    say, held = context.say, await _held_for(context, waybill)
    if held is None:
        return []
    deadline_s = held.deadline_at_ms / 1000
    if deadline_s >= context.now_s:
        text = say(
            "The carrier has not said yet what became of this order, and may still do so until "
            "{time}. After that you can decide it here.",
            time=exact_time(deadline_s, context.web.zone),
        )
        return [Notice(text, "soon")]
    text = say(
        "The carrier does not say what became of this order. Find out, in its own pages or by "
        "telephone, and decide. What is decided cannot be taken back."
    )
    sum_ = amount(say, held.unit, held.amount)
    number = Field("number", say("Waybill number"), is_required=True, length_max=64)
    issued = Form(
        DECIDE,
        say("Settle with this number"),
        [number],
        hidden={"id": waybill.object_id, "outcome": _ISSUED},
        title=say("The carrier has issued it"),
        note=say(
            "The waybill gets this number, and what is held, {amount}, is charged.", amount=sum_
        ),
    )
    not_issued = Form(
        DECIDE,
        say("Give it up"),
        hidden={"id": waybill.object_id, "outcome": _NOT_ISSUED},
        title=say("The carrier has not issued it"),
        note=say(
            "There is no waybill, what is held, {amount}, goes back to the account, and the order "
            "can be sent again.",
            amount=sum_,
        ),
        tone="warn",
    )
    return [Notice(text, "bad"), Columns([issued, not_issued])]


def kept_form(context: Context, waybill: Waybill) -> list[Form]:
    """For a waybill whose carrier has not confirmed another receiver."""
    if waybill.changing_until_s is None:
        return []
    say = context.say
    form = Form(
        KEPT,
        say("It has the receiver from before"),
        hidden={"id": waybill.object_id},
        title=say("Its carrier has not confirmed another receiver"),
        note=say(
            "There is no label until it has. Have the change sent again; or find out from the "
            "carrier which receiver it has. If it has the new one, cancel the waybill."
        ),
        tone="warn",
    )
    return [form]


async def kept_act(context: Context) -> Response:
    say, found = context.say, await find_by_id(context.database, context.form.get("id", ""))
    waybill = found.waybill
    question = say(
        "Keep the receiver of waybill {number} of {carrier}, order {order}? Its label can then be "
        "printed.",
        number=waybill.number,
        carrier=waybill.wp_code,
        order=waybill.order_sn,
    )
    context.confirm(question, say("It has the receiver from before"))
    await decide_kept(context.database, waybill.object_id, waybill.wp_code, context.runtime)
    return context.go(WAYBILL, id=waybill.object_id, said="kept")


async def decide_act(context: Context) -> Response:
    say, wanted = context.say, context.form.get("id", "")
    outcome = context.form.get("outcome", "")
    if outcome not in (_ISSUED, _NOT_ISSUED):
        raise PageError(400, "There is no such decision", "Decide on the page of the waybill.")
    number = context.form.get("number", "").strip() if outcome == _ISSUED else None
    if number == "":
        wrong = PageError(
            400, "A number is missing", "Fill in the field {field}.", field=say("Waybill number")
        )
        raise wrong.at("number")
    reconciler = context.services.work.reconciler
    waybill = (await reconciler.decidable(wanted, None, number)).waybill
    button = say("Give it up") if number is None else say("Settle with {number}", number=number)
    context.confirm(await _question(context, waybill, number), button)
    found = await reconciler.decide(wanted, None, number, context.runtime)
    said = "settled" if found.outcome is Outcome.SETTLED else outcome
    return context.go(WAYBILL, id=waybill.object_id, said=said)


async def _question(context: Context, waybill: Waybill, number: str | None) -> str:
    """What the decision does to the waybill and to the account's money, before and after."""
    say, held = context.say, await _held_for(context, waybill)
    if held is None:
        # Settled since it was found to be open.
        raise PageError(409, "That is no longer possible", SAID["settled"])
    account = await find_account(context.database, waybill.account_id)
    balances = await list_balances(context.database, account.id)
    balance = next(
        (each for each in balances if each.unit == held.unit), Balance(held.unit, 0, 0, 0, 0)
    )

    def change(before: int, by: int) -> str:
        return f"{amount(say, held.unit, before)} → {amount(say, held.unit, before + by)}"

    if number is None:
        asked = say(
            "Give up the waybill of order {order} of {carrier}? What is held for it, {price}, goes "
            "back. It cannot be undone.",
            order=waybill.order_sn,
            carrier=waybill.wp_code,
            price=amount(say, held.unit, held.amount),
        )
    else:
        asked = say(
            "Settle order {order} of {carrier} with number {number}? What is held for it, {price}, "
            "is charged. It cannot be undone.",
            order=waybill.order_sn,
            carrier=waybill.wp_code,
            number=number,
            price=amount(say, held.unit, held.amount),
        )
    money = say(
        "{account} has: {left}\nHeld: {held}",
        account=account.name,
        left=change(balance.amount, 0 if number is not None else held.amount),
        held=change(balance.held, -held.amount),
    )
    return f"{asked}\n{money}"
