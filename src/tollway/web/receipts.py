"""A receipt as the stages of its call, for operators and callers alike."""

from collections import Counter

from tollway.consent.grants import GrantRequest, grants_between
from tollway.consent.owners import find_owner
from tollway.contract.operation import OwnerKind
from tollway.contract.reasons import Reason
from tollway.contract.receipt import FreeReason, Outcome, Receipt
from tollway.ledger.call_timings import stage_times
from tollway.ledger.receipts import find_receipt
from tollway.ledger.tokens import find_own_token
from tollway.operations.catalogue import BY_NAME, title_of
from tollway.web.account_parts import owner_for_member
from tollway.web.area import Context, address
from tollway.web.blocks import Block, Cell, Facts, Link, Notice, Stage, Stages
from tollway.web.page_errors import PageError
from tollway.web.reference_parts import page_of
from tollway.web.wording import amount, exact_time, grouped, named_reason, sentence

# The stages in the order of the pipeline, by their names there.
_NAMES = (
    ("route", sentence("route")),
    ("authenticate", sentence("authenticate")),
    ("permit", sentence("permit")),
    ("throttle", sentence("throttle")),
    ("decode", sentence("decode")),
    ("consent", sentence("consent")),
    ("replay", sentence("replay")),
    ("perform", sentence("perform")),
    ("settle", sentence("charge")),
)
# Stages that a reader sees as part of another one.
_PART_OF = {"simulate": "throttle", "recheck": "decode", "dryrun": "consent"}
_STOPPED_BY_REASON = {
    Reason.CREDENTIAL_INVALID: "authenticate",
    Reason.TOKEN_NOT_FROM_HERE: "authenticate",
    Reason.TOKEN_NOT_FOR_THIS: "permit",
    Reason.TOKEN_DAY_USED_UP: "permit",
    Reason.ACCOUNT_SUSPENDED: "permit",
    Reason.PERMISSION_MISSING: "permit",
    Reason.OPERATION_CLOSED: "permit",
    Reason.CALLS_USED_UP: "permit",
    Reason.CREDITS_USED_UP: "permit",
    Reason.THROTTLED: "throttle",
    Reason.OWNER_UNKNOWN: "consent",
    Reason.NOT_AUTHORIZED: "consent",
    Reason.IDEMPOTENCY_KEY_REUSED: "replay",
    Reason.ANSWER_ERASED: "replay",
    Reason.STORE_UNAVAILABLE: "settle",
    Reason.COMMIT_IN_DOUBT: "settle",
}
# What to do about a reason whose message has values of the call: the receipt does not keep them.
_CURES = {
    Reason.CALLS_USED_UP: sentence("Top up the calls of this operation."),
    Reason.CREDITS_USED_UP: sentence("Top up the credits."),
    Reason.THROTTLED: sentence("Call more slowly, or have the rate of the account raised."),
    Reason.NOT_AUTHORIZED: sentence(
        "Send the owner of the shop or user the link in the answer, and call again when they have "
        "approved."
    ),
    Reason.CARRIER_UNKNOWN: sentence("Check wp_code: no carrier here has this code."),
    Reason.OWNER_UNKNOWN: sentence("Check the id of the shop or user: none has this one here."),
    Reason.TOKEN_NOT_FOR_THIS: sentence("Use a token that is not limited to other operations."),
    Reason.TOKEN_NOT_FROM_HERE: sentence("Call from an address that the token is limited to."),
    Reason.TOKEN_DAY_USED_UP: sentence("Use another token, or this one again tomorrow."),
}
# What an operator does about a reason whose message sends the caller to one, and where.
_ACTS = {
    Reason.PERMISSION_MISSING: (
        sentence("Enable the operation"),
        "/operator/account/permission?account={account}&operation={operation}",
    ),
    Reason.OPERATION_CLOSED: (
        sentence("Open the operation"),
        "/operator/prices/operation?operation={operation}",
    ),
    Reason.ACCOUNT_SUSPENDED: (sentence("Resume the account"), "/operator/account?id={account}"),
}
_IN_THE_ANSWER = sentence("The msg of its answer says what was wrong and what to do.")
_HOLDS = {
    "held": sentence("held"),
    "captured": sentence("charged"),
    "released": sentence("released"),
}
_OF_DECODING = (
    "PARAMETER_",
    "SPELLINGS_",
    "BODY_",
    "IDEMPOTENCY_KEY_INVALID",
    "WINDOW_",
    "FILTER_",
)


def stopped_at(reason: str) -> str:
    """The stage that refused a call for this reason."""
    known = Reason.__members__.get(reason)
    if known in _STOPPED_BY_REASON:
        return _STOPPED_BY_REASON[known]
    return "decode" if reason.startswith(_OF_DECODING) else "perform"


async def wanted_receipt(context: Context, account_id: str | None, request_id: str) -> Receipt:
    """The receipt of a call: of this account, or of any if `account_id` is None."""
    language = context.visit.view.language
    found = await find_receipt(context.database, account_id, request_id, language)
    if found is None:
        raise PageError(
            404,
            "There is no receipt with this id",
            "It is the X-Request-Id of a call. One that was not charged may have been dropped "
            "after its time, and a new one takes a second to appear.",
        )
    return found


async def receipt_blocks(context: Context, receipt: Receipt) -> list[Block]:
    say = context.say
    is_refused = bool(receipt.code)
    is_open = receipt.outcome is Outcome.HELD or receipt.reason == FreeReason.NOT_DONE
    tone = "bad" if is_refused else "soon" if is_open else "good"
    taken = await stage_times(context.database, receipt.account_id, receipt.request_id)
    note = ""
    if taken:
        note = say("answered in {time}", time=_milliseconds(sum(taken.values())))
    token = None
    if receipt.token_id:
        token = await find_own_token(context.database, receipt.account_id, receipt.token_id)
    label = f"{token.label} · " if token is not None and token.label else ""
    stages = _with_times(_stages(context, receipt, label), taken)
    return [
        _notice(context, receipt, tone),
        Stages(say("The stages of this call"), stages, note),
        Facts(_facts(context, receipt, await _owner(context, receipt)), say("Details")),
    ]


def _notice(context: Context, receipt: Receipt, tone: str) -> Notice:
    """What became of the call, and what to do about a refusal: the message of the answer, unless it
    has values of the call that are not kept."""
    say, reason = context.say, Reason.__members__.get(receipt.reason or "")
    if reason is None or not receipt.code:
        return Notice(receipt.why, tone)
    # Of a call in the sandbox, the reason may be made up.
    if not context.person.account_id and reason in _ACTS and not receipt.is_test:
        act, path = _ACTS[reason]
        href = path.format(account=receipt.account_id, operation=receipt.operation)
        return Notice(receipt.why, tone, Link(say(act), href))
    if "{" not in reason.value.message.en:
        cure = reason.value.message.said(context.visit.view.language)
        return Notice(receipt.why + say(" ") + cure, tone)
    if reason in _CURES:
        return Notice(receipt.why + say(" ") + say(_CURES[reason]), tone)
    operation = BY_NAME.get(receipt.operation)
    link = None if operation is None else Link(say("API reference"), page_of(operation))
    return Notice(receipt.why + say(" ") + (receipt.msg or say(_IN_THE_ANSWER)), tone, link)


def _stages(context: Context, receipt: Receipt, label: str) -> list[tuple[str, Stage]]:
    say, operation = context.say, BY_NAME.get(receipt.operation)
    stop = stopped_at(receipt.reason or "") if receipt.code else ""
    found = _found(context, receipt, label)
    needs_consent = operation is None or operation.consent is not None
    stages, is_past = [], False
    for name, title in _NAMES:
        if is_past:
            stage = Stage(say(title), "unused", say("not reached"))
        elif name == stop:
            stage = Stage(say(title), "stopped", named_reason(say, receipt.reason or ""))
            is_past = True
        elif name == "consent" and not needs_consent:
            stage = Stage(say(title), "unused", say("not needed"))
        elif name == "replay" and not receipt.replay_of:
            stage = Stage(say(title), "unused", say("no repetition"))
        else:
            stage = Stage(say(title), "passed", found.get(name, ""))
        stages.append((name, stage))
    return stages


def _with_times(stages: list[tuple[str, Stage]], taken: dict[str, int]) -> list[Stage]:
    """The stages with how long each took, where that is known."""
    of_stage: Counter[str] = Counter()
    for name, taken_us in taken.items():
        of_stage[_PART_OF.get(name, name)] += taken_us
    total, begin, timed = max(of_stage.total(), 1), 0, []
    for name, stage in stages:
        length = of_stage[name]
        timed.append(stage)
        if name in of_stage and stage.state != "unused":
            timed[-1] = stage._replace(
                taken=_milliseconds(length),
                begin=round(100 * begin / total, 1),
                length=round(100 * length / total, 1),
            )
        begin += length
    return timed


def _milliseconds(taken_us: int) -> str:
    taken_ms = taken_us / 1000
    return f"{taken_ms:.2f} ms" if taken_ms < 10 else f"{grouped(round(taken_ms))} ms"


def _found(context: Context, receipt: Receipt, label: str) -> dict[str, str]:
    """What each stage found; `label` is the token's, shown before its id."""
    say = context.say
    found = {
        "route": say(title_of(receipt.operation)),
        "authenticate": f"{label}{receipt.token_id or say('the token is valid')}",
        "permit": say("the account may call it and can pay"),
        "throttle": say("within the rate limit"),
        "decode": say("the parameters are valid"),
        "perform": say("the answer was made"),
    }
    if receipt.consent is not None:
        found["consent"] = context.owner(receipt.consent.owner_kind, receipt.consent.owner_id)
    if receipt.waybill is not None:
        found["perform"] = f"{receipt.waybill.wp_code} {receipt.waybill.number or ''}"
    if receipt.replay_of:
        found["replay"] = say("the answer of an earlier call")
    if receipt.balance_before is not None and receipt.unit is not None:
        before, after = grouped(receipt.balance_before), grouped(receipt.balance_after or 0)
        taken = amount(say, receipt.unit, receipt.amount)
        if receipt.outcome is Outcome.HELD:
            taken = say("{amount} held", amount=taken)
        found["settle"] = say("{title}: {text}", title=taken, text=f"{before} → {after}")
    else:
        found["settle"] = say("nothing charged")
    return found


async def _owner(context: Context, receipt: Receipt) -> str:
    """The shop or user of a call; a shop also by its name, while it allows the account anything."""
    kind, owner_id = receipt.owner_kind or "", receipt.owner_id or ""
    # The shops of the sandbox have no names here.
    if kind == OwnerKind.SHOP and not receipt.is_test:
        asked = GrantRequest(receipt.account_id, kind, owner_id, "")
        for grant in await grants_between(context.database, asked):
            if grant.holds(context.now_s):
                found = await find_owner(context.database, kind, owner_id)
                return owner_for_member(context, grant, found.name)
    return context.owner(kind, owner_id)


def _facts(context: Context, receipt: Receipt, owner: str) -> list[tuple[str, Cell]]:
    say, when = context.say, context.time(receipt.at_ms / 1000)
    facts = [
        (say("Request"), Cell(receipt.request_id, "mono id")),
        (say("When"), Cell(f"{when.title} · {when.text}")),
        (say("Result code"), Cell("" if receipt.code is None else str(receipt.code), "mono")),
        (say("Reason"), Cell(named_reason(say, receipt.reason or ""), "mono")),
    ]
    # What is only held may never be charged.
    if receipt.unit is not None and receipt.outcome is not Outcome.HELD:
        facts.append((say("Charged"), context.amount(receipt.unit, receipt.amount)))
        if receipt.refund is not None:
            given_back = amount(say, receipt.unit, receipt.refund.amount)
            at = exact_time(receipt.refund.at_ms / 1000, context.web.zone)
            facts.append((say("Refunded"), Cell(f"{given_back} · {at}")))
    if receipt.replay_of:
        earlier = address(f"{context.area}/request", id=receipt.replay_of)
        facts.append((say("Repeats"), Cell(receipt.replay_of, "mono", earlier)))
    if receipt.client_request_id:
        facts.append((say("Id of the client"), Cell(receipt.client_request_id, "mono id")))
    if receipt.hold is not None:
        size = receipt.hold.amount
        held = amount(say, receipt.unit, size) if receipt.unit else grouped(size)
        held = say(", ").join((held, say(_HOLDS[receipt.hold.state])))
        facts.append((say("Hold"), Cell(held)))
    # Operators have a page of each waybill and of each shop or user.
    is_operator = not context.person.account_id
    if (waybill := receipt.waybill) is not None:
        shown = f"{waybill.wp_code} {waybill.number or say(waybill.state)}"
        page = address("/operator/waybill", id=waybill.object_id)
        facts.append((say("Waybill"), Cell(shown, "mono", page if is_operator else "")))
    if receipt.owner_kind and receipt.owner_id:
        is_used = receipt.consent is not None
        # The shops of the sandbox have no pages.
        is_known = receipt.reason == Reason.NOT_AUTHORIZED.name and not receipt.is_test
        page = address("/account/shops", q=receipt.owner_id)
        if is_operator:
            page = address("/operator/shop", kind=receipt.owner_kind, shop=receipt.owner_id)
        named = say("Consent of") if is_used else say("Shop or user")
        facts.append((named, Cell(owner, href=page if is_used or is_known else "")))
    return facts
