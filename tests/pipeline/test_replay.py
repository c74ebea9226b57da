"""The stage that looks for a stored answer, by itself: keys, fingerprints and what is sealed."""

from collections.abc import Awaitable

import pytest
from msgspec.structs import replace

from tests.support.till import KEYS, PRICE, OnTill, Till
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charge_transaction import AlreadyAnswered
from tollway.ledger.charges import ActResult, Charge, ShortageError
from tollway.ledger.idempotency import KeptAnswer, keep
from tollway.operations.orders.operation import ORDERS
from tollway.operations.waybills.operation import WAYBILLS
from tollway.pipeline.call import KEY_HEADER, Call
from tollway.pipeline.replay import Replay, erased_answer, read_key
from tollway.store.key_file import SealError
from tollway.store.keys import KeyedSigner
from tollway.store.sealing import Sealer

AT_S = 1_700_000_000.125
DAY_S = 86_400
# Of a call of orders and the first of the keys. They are stored: an update must not change them.
FINGERPRINT = bytes.fromhex("01cd78327ffc6b3308ce71fa1f15d1554c")
SEALED = bytes.fromhex(
    "015002a2f7d6f0d2760990dbadded5e272243c0b7771341e71106f117eeb141f38ec6bfec1a9b5904d016e52f123e7"
)
HELD = ActResult(b"", is_paid=False, is_held=True)


async def affordable(_: Call) -> None:
    """Lets every call pass."""


REPLAY = Replay(affordable)


async def looked_up(call: Call) -> None:
    waiting = REPLAY(call)
    assert waiting is not None
    await waiting


async def keep_for(till: Till, call: Call, result: ActResult) -> None:
    """Keeps an answer under the key of a call that was looked up, as of the moment of that call."""
    key = call.idempotency_key
    assert key is not None
    charge = Charge(
        *(till.caller.account_id, "credits", PRICE, "orders", call.request_id, "tok_x"),
        int(call.at_s * 1000),
    )
    await till.database.write(lambda transaction: keep(transaction, charge, key, result))


async def found_by(call: Call) -> KeptAnswer:
    with pytest.raises(AlreadyAnswered) as found:
        await looked_up(call)
    assert call.idempotency_key is None
    return found.value.kept


def refused_as(reason: Reason, refusal: pytest.ExceptionInfo[Refusal]) -> bool:
    return refusal.value.reason is reason


async def test_a_call_without_a_key_passes_at_once(till: Till) -> None:
    call = till.call()
    assert REPLAY(call) is None
    assert call.idempotency_key is None


@pytest.mark.parametrize("key", ["k", " ", "~" * 255, "\nproduct_analysis:1", "\n" + "k" * 255])
async def test_keys_are_printable_and_those_of_pages_begin_with_a_line_end(
    till: Till, key: str
) -> None:
    assert read_key(till.call(key=key)) == key


@pytest.mark.parametrize("key", ["", "k" * 256, "tab\there", "\n", "\n\nk", "k\n", "\x7f", "é"])
async def test_what_is_no_key_is_refused(till: Till, key: str) -> None:
    with pytest.raises(Refusal) as refusal:
        REPLAY(till.call(key=key))
    assert refused_as(Reason.IDEMPOTENCY_KEY_INVALID, refusal)


async def test_a_kept_answer_is_given_again_for_nothing(till: Till) -> None:
    first = till.call(key="k")
    await looked_up(first)
    await keep_for(till, first, ActResult(b"the answer", is_paid=True))
    again = till.call(key="k")
    # As if it had come to be charged before the answer was found.
    again.charged = PRICE
    kept = await found_by(again)
    REPLAY.check_same(again, kept)
    answer = REPLAY.opened(again, kept)
    REPLAY.repeat(again, kept, answer)
    assert (again.data, again.replay_of, again.charged) == (b"the answer", first.request_id, 0)


async def test_an_answer_is_found_for_a_day(till: Till) -> None:
    first = till.call(key="k", at_s=AT_S)
    await looked_up(first)
    await keep_for(till, first, ActResult(b"the answer", is_paid=True))
    await found_by(till.call(key="k", at_s=AT_S + DAY_S - 0.001))
    await looked_up(till.call(key="k", at_s=AT_S + DAY_S))


async def test_a_key_that_is_reserved_is_free_for_the_same_request_alone(till: Till) -> None:
    first = till.call(key="k")
    await looked_up(first)
    await keep_for(till, first, HELD)
    await looked_up(till.call(key="k"))
    other = till.call(key="k", asked="others")
    kept = await found_by(other)
    with pytest.raises(Refusal) as refusal:
        REPLAY.check_same(other, kept)
    assert refused_as(Reason.IDEMPOTENCY_KEY_REUSED, refusal)


def test_a_call_whose_key_is_new_must_be_affordable(on_till: OnTill) -> None:
    async def unaffordable(_: Call) -> None:
        raise ShortageError(0)

    async def test(till: Till) -> None:
        call = till.call(key="k")
        waiting: Awaitable[None] | None = Replay(unaffordable)(call)
        assert waiting is not None
        with pytest.raises(ShortageError):
            await waiting
        assert call.idempotency_key is None

    on_till(test)


async def test_the_same_is_what_asks_for_the_same_of_the_same_operation(till: Till) -> None:
    kept = KeptAnswer("r1", FINGERPRINT, b"")
    REPLAY.check_same(till.call(ORDERS), kept)
    for other in (till.call(ORDERS, asked="others"), till.call(WAYBILLS)):
        with pytest.raises(Refusal) as refusal:
            REPLAY.check_same(other, kept)
        assert refused_as(Reason.IDEMPOTENCY_KEY_REUSED, refusal)


async def test_a_fingerprint_is_that_of_earlier_versions(till: Till) -> None:
    call = till.call(key="k")
    await looked_up(call)
    assert call.idempotency_key is not None
    assert call.idempotency_key.fingerprint == FINGERPRINT


async def test_a_fingerprint_is_compared_with_the_key_that_it_was_made_with(till: Till) -> None:
    call = till.call(key="k")
    newer = replace(till.environment.answers, fingerprinter=KeyedSigner(KEYS, 2, "fingerprint"))
    call.environment = replace(till.environment, answers=newer)
    await looked_up(call)
    assert call.idempotency_key is not None
    assert call.idempotency_key.fingerprint != FINGERPRINT
    assert call.idempotency_key.is_same(FINGERPRINT)
    REPLAY.check_same(call, KeptAnswer("r1", FINGERPRINT, b""))


async def test_an_answer_sealed_by_an_earlier_version_is_opened_for_its_account_and_key_alone(
    till: Till,
) -> None:
    kept = KeptAnswer("r1", FINGERPRINT, SEALED)
    call = till.call(key="k")
    with pytest.raises(SealError):
        REPLAY.opened(call, kept)
    call.caller = type(call.caller)("tok_x", "account", False, None, {})
    assert REPLAY.opened(call, kept) == b"the answer"
    call.headers = {KEY_HEADER: b"another"}
    with pytest.raises(SealError):
        REPLAY.opened(call, kept)


async def test_an_answer_that_was_erased_is_refused(till: Till) -> None:
    sealed = erased_answer(Sealer(KEYS, 1), till.caller.account_id, "k")
    with pytest.raises(Refusal) as refusal:
        REPLAY.opened(till.call(key="k"), KeptAnswer("r1", FINGERPRINT, sealed))
    assert refused_as(Reason.ANSWER_ERASED, refusal)
