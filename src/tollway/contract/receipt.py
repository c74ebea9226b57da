"""What a receipt says of one call: what it cost, and why."""

from enum import StrEnum

import msgspec

from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason

# Followed by the id of the call.
RECEIPTS_PATH = "/receipts/"
# The name of a request for a receipt in limits, logs and metrics.
RECEIPTS_NAME = "receipts"
RECEIPT_REASONS = (
    Reason.TIMED_OUT,
    Reason.INTERNAL,
    Reason.THROTTLED,
    Reason.STORE_UNAVAILABLE,
    Reason.CREDENTIAL_INVALID,
    Reason.METHOD_WRONG,
    Reason.RECEIPT_UNKNOWN,
)


class Outcome(StrEnum):
    """What the ledger says about a call."""

    CHARGED = "charged"
    NOT_CHARGED = "not_charged"
    HELD = "held"


class FreeReason(StrEnum):
    """Why a call that was not refused was not charged either."""

    FREE = "FREE"
    BATCH = "BATCH"
    REPLAYED = "REPLAYED"
    NOT_DONE = "NOT_DONE"
    DRY_RUN = "DRY_RUN"
    TEST = "TEST"


class ReceiptConsent(msgspec.Struct, frozen=True):
    """The consent that a call was made under."""

    owner_kind: str
    owner_id: str
    consent_id: str


class ReceiptHold(msgspec.Struct, frozen=True):
    """What was set aside for a call, until when, and whether it was captured or released."""

    id: str
    state: str
    amount: int
    deadline_at_ms: int
    settled_at_ms: int | None


class ReceiptRefund(msgspec.Struct, frozen=True):
    """What was given back of what a call took, and when."""

    amount: int
    at_ms: int


class ReceiptWaybill(msgspec.Struct, frozen=True):
    """The waybill that a call asked for; a warning is about a part of an address."""

    object_id: str
    wp_code: str
    number: str | None
    state: str
    parent_number: str | None
    warnings: list[str]


class Receipt(msgspec.Struct, frozen=True):
    """One call. `amount` is what it took, or what is set aside for it; the balances are those
    around that. `code` and `reason` are what it was answered with, if that is known yet."""

    request_id: str
    account_id: str
    operation: str
    at_ms: int
    outcome: Outcome
    code: int | None
    reason: str | None
    why: str
    amount: int = 0
    unit: str | None = None
    balance_before: int | None = None
    balance_after: int | None = None
    token_id: str | None = None
    replay_of: str | None = None
    client_request_id: str | None = None
    consent: ReceiptConsent | None = None
    hold: ReceiptHold | None = None
    refund: ReceiptRefund | None = None
    waybill: ReceiptWaybill | None = None
    is_test: bool = False
    # Whose data it asked for, also if that was refused.
    owner_kind: str | None = None
    owner_id: str | None = None
    # What its answer said of a wrong parameter.
    msg: str | None = None


DOUBTFUL = Phrase(
    "{field} is not listed in the place that it was sent with: check the address.",
    "{field} 不在所填上级地区的行政区划名录中：请核对地址。",
)
CHARGED = Phrase("The call succeeded and was charged.", "调用成功，已扣费。")
REFUNDED = Phrase(
    "The call succeeded and was charged; {amount} of it was refunded since.",
    "调用成功，已扣费；其中 {amount} 已退还。",
)
HELD = Phrase(
    "The outcome is not known yet: what the call costs is set aside until it is.",
    "结果尚未确定：费用已预留，待结果确定后扣费或退回。",
)
CAPTURED = Phrase(
    "What was set aside for the call was charged when its outcome was known: it succeeded.",
    "结果已确定为成功：预留的费用已扣除。",
)
RELEASED = Phrase(
    "What was set aside for the call was given back when its outcome was known: nothing was done.",
    "结果已确定为未完成：预留的费用已退回。",
)
REFUSED = Phrase(
    "The call was refused with code {code} ({reason}): only success is charged.",
    "调用被拒绝，错误码 {code}（{reason}）：仅成功的调用扣费。",
)
FREE_REASONS = {
    FreeReason.FREE: Phrase("The call succeeded; its price is 0.", "调用成功，价格为 0。"),
    FreeReason.BATCH: Phrase(
        "Each part of the call was charged or not by itself, and has a receipt of its own: "
        "the answer has their ids.",
        "本次调用的各项分别计费，各有回执，编号见响应。",
    ),
    FreeReason.REPLAYED: Phrase(
        "The answer of an earlier call was given again: only that call was charged.",
        "返回了先前调用的结果：仅先前的调用扣费。",
    ),
    FreeReason.DRY_RUN: Phrase(
        "The call was a dry run: nothing was done.", "本次为试算调用：未执行任何操作。"
    ),
    FreeReason.TEST: Phrase(
        "The call was made with a test token: such calls are never charged.",
        "使用测试令牌的调用：不扣费。",
    ),
    FreeReason.NOT_DONE: Phrase(
        "What was asked for was not done; data of the answer said why. Only success is charged.",
        "请求的操作未完成，原因见响应的 data。仅成功的调用扣费。",
    ),
}
