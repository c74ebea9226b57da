"""Stage: was this very request answered before, under the same Idempotency-Key?"""

import re
import zlib
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charges import Keeping
from tollway.ledger.keeping import KeptAnswer, find_kept
from tollway.ledger.posting import KeptBefore
from tollway.store.database import Database
from tollway.store.sealing import Sealer
from tollway.store.signing import Signer
from tollway.toll.call import KEY_HEADER, Call

_KEY = re.compile(rb"[\x20-\x7e]{1,255}")
_DIGEST_BYTES = 16


class Memory(msgspec.Struct, frozen=True):
    """Where answers are kept, and the keys that seal them and tell requests apart."""

    database: Database
    sealer: Sealer
    fingerprinter: Signer


class Recall:
    """Ends a call with KeptBefore whose key was used before; otherwise has its answer kept."""

    def __init__(
        self, live: Memory, sandbox: Memory, check_affordable: Callable[[Call], Awaitable[None]]
    ) -> None:
        self._live = live
        self._sandbox = sandbox
        self._check_affordable = check_affordable

    def __call__(self, call: Call) -> Awaitable[None] | None:
        header = call.headers.get(KEY_HEADER)
        if header is None:
            return None
        if not _KEY.fullmatch(header):
            raise Refusal(Reason.IDEMPOTENCY_KEY_INVALID)
        return self._look_up(call, header.decode("ascii"))

    async def _look_up(self, call: Call, key: str) -> None:
        memory, account_id = self._memory(call), call.passport.account_id
        signer, asked = memory.fingerprinter, _asked(call)
        keeping = Keeping(
            key,
            _fingerprint(asked, signer, signer.current),
            partial(_is_same, asked, signer),
            partial(_seal, memory.sealer, _context(account_id, key)),
            None,
        )
        kept = await find_kept(memory.database, account_id, key, int(call.at_s * 1000))
        if kept is not None and not kept.is_reserved_for(keeping):
            raise KeptBefore(kept)
        await self._check_affordable(call)
        call.keeping = keeping

    def repeat(self, call: Call, kept: KeptAnswer) -> None:
        """Gives a call the answer that was kept, if it asks for the same."""
        memory = self._memory(call)
        if not _is_same(_asked(call), memory.fingerprinter, kept.fingerprint):
            raise Refusal(Reason.IDEMPOTENCY_KEY_REUSED)
        key = call.headers[KEY_HEADER].decode("ascii")
        context = _context(call.passport.account_id, key)
        call.data = zlib.decompress(memory.sealer.open(kept.sealed, context))
        call.replay_of = kept.request_id
        call.charged = 0

    def _memory(self, call: Call) -> Memory:
        return self._sandbox if call.passport.is_test else self._live


def _asked(call: Call) -> bytes:
    """What a request asks for, whichever way it was spelled and encoded."""
    return msgspec.json.encode((call.operation_name, call.request))


def _fingerprint(asked: bytes, signer: Signer, key_id: int) -> bytes:
    """Tells whether two requests ask for the same.

    Keyed, because what was asked for may be personal and easy to guess.
    """
    return bytes([key_id]) + signer.sign(asked, key_id).digest[:_DIGEST_BYTES]


def _is_same(asked: bytes, signer: Signer, fingerprint: bytes) -> bool:
    """Whether a fingerprint is of what is asked for, also if it was made with another key."""
    return _fingerprint(asked, signer, fingerprint[0]) == fingerprint


def _context(account_id: str, key: str) -> bytes:
    return msgspec.json.encode(("kept answer", account_id, key))


def _seal(sealer: Sealer, context: bytes, data: bytes) -> bytes:
    return sealer.seal(zlib.compress(data, 1), context)
