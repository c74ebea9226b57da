"""Stage: was this very request answered before, under the same Idempotency-Key?"""

import re
import zlib
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from tollway.contract.operation import OwnerKind
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charge_transaction import AlreadyAnswered
from tollway.ledger.charges import IdempotencyKey
from tollway.ledger.idempotency import OF_PAGES, KeptAnswer, find_kept
from tollway.pipeline.call import KEY_HEADER, Call
from tollway.store.keys import KeyedSigner
from tollway.store.sealing import Sealer

_KEY = re.compile(b"(?:%b)?[\x20-\x7e]{1,255}" % OF_PAGES.encode())
_DIGEST_BYTES = 16


class Replay:
    """Raises AlreadyAnswered if the key was used before; otherwise has the answer stored."""

    def __init__(self, check_affordable: Callable[[Call], Awaitable[None]]) -> None:
        self._check_affordable = check_affordable

    def __call__(self, call: Call) -> Awaitable[None] | None:
        key = read_key(call)
        # Files are free and sent again each time: they are not stored.
        if key is None or call.operation.is_file:
            return None
        return self._look_up(call, key)

    async def _look_up(self, call: Call, key: str) -> None:
        answers, account_id = call.environment.answers, call.caller.account_id
        signer, asked = answers.fingerprinter, _asked(call)
        idempotency_key = IdempotencyKey(
            key,
            _fingerprint(asked, signer, signer.current),
            partial(_is_same, asked, signer),
            partial(_seal, answers.sealer, answer_context(account_id, key)),
            None,
        )
        kept = await self._find(call, key)
        if kept is not None and not kept.is_reserved_for(idempotency_key):
            raise AlreadyAnswered(kept)
        await self._check_affordable(call)
        call.idempotency_key = idempotency_key

    async def find_again(self, call: Call, kept: KeptAnswer) -> KeptAnswer:
        """A stored answer. One that charging found is looked up again, because charging does not
        check whether it contains what was erased since."""
        key = call.idempotency_key
        return kept if key is None else await self._find(call, key.key) or kept

    @staticmethod
    async def _find(call: Call, key: str) -> KeptAnswer | None:
        database, account_id, grant = (
            call.environment.answers.database,
            call.caller.account_id,
            call.grant,
        )
        shop_id = grant.owner_id if grant and grant.owner_kind == OwnerKind.SHOP else None
        return await find_kept(database, account_id, key, int(call.at_s * 1000), shop_id)

    def check_same(self, call: Call, kept: KeptAnswer) -> None:
        """Refuses a call that is not the same request as the one that was answered."""
        if not _is_same(_asked(call), call.environment.answers.fingerprinter, kept.fingerprint):
            raise Refusal(Reason.IDEMPOTENCY_KEY_REUSED)

    def opened(self, call: Call, kept: KeptAnswer) -> bytes:
        """The stored answer; a call whose answer was erased is refused."""
        answers = call.environment.answers
        key = call.headers[KEY_HEADER].decode("ascii")
        context = answer_context(call.caller.account_id, key)
        answer = answers.sealer.open(kept.sealed, context)
        if not answer or kept.is_erased:
            raise Refusal(Reason.ANSWER_ERASED)
        return zlib.decompress(answer)

    def repeat(self, call: Call, kept: KeptAnswer, answer: bytes) -> None:
        """Gives a call the stored answer."""
        call.data = answer
        call.replay_of = kept.request_id
        call.charged = 0


def read_key(call: Call) -> str | None:
    """The Idempotency-Key of a call, if it has one."""
    header = call.headers.get(KEY_HEADER)
    if header is None:
        return None
    if not _KEY.fullmatch(header):
        raise Refusal(Reason.IDEMPOTENCY_KEY_INVALID)
    return header.decode("ascii")


def _asked(call: Call) -> bytes:
    """What a request asks for, however it was spelled and encoded."""
    return msgspec.json.encode((call.operation.name, call.request))


def _fingerprint(asked: bytes, signer: KeyedSigner, key_id: int) -> bytes:
    """Equal for two requests that ask for the same.

    Keyed, because a request may contain personal data that is easy to guess.
    """
    return bytes([key_id]) + signer.sign(asked, key_id).digest[:_DIGEST_BYTES]


def _is_same(asked: bytes, signer: KeyedSigner, fingerprint: bytes) -> bool:
    """Whether a fingerprint is of this request, even if it was made with another key."""
    return _fingerprint(asked, signer, fingerprint[0]) == fingerprint


def erased_answer(sealer: Sealer, account_id: str, key: str) -> bytes:
    """What replaces an erased answer, so that its key stays used."""
    return sealer.seal(b"", answer_context(account_id, key))


def answer_context(account_id: str, key: str) -> bytes:
    return msgspec.json.encode(("kept answer", account_id, key))


def _seal(sealer: Sealer, context: bytes, data: bytes) -> bytes:
    return sealer.seal(zlib.compress(data, 1), context)
