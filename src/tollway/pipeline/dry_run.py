"""Stages for trials: simulated outcomes of test calls, and dry runs."""

import asyncio
import re
from collections.abc import Awaitable
from zoneinfo import ZoneInfo

import msgspec

from tollway.consent.grants import GrantRequest
from tollway.consent.links import ConsentLinks
from tollway.contract.envelope import encode_data
from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.sample_refusal import sample_refusal
from tollway.ledger.caller_cache import CallerCache
from tollway.ledger.charges import ShortageError
from tollway.ledger.idempotency import OF_PAGES
from tollway.pipeline.call import Call
from tollway.pipeline.perform import Perform
from tollway.pipeline.permit import day_cap

OUTCOME_HEADER = b"x-tollway-outcome"
DRY_RUN_HEADER = b"x-tollway-dry-run"
_DRY_RUN = re.compile(b"(?:%b)?1" % OF_PAGES.encode())
SLOW_MAX_MS = 10_000

SLOW_PATTERN = "slow:([0-9]{1,5})"
_SLOW = re.compile(SLOW_PATTERN)
_NOT_KNOWN = Phrase("it is no outcome of this operation", "不是该接口的结果")
_NOT_A_TEST = Phrase("the token is not a test token", "令牌不是测试令牌")
_NOT_ONE = Phrase("it is not 1", "不是 1")
_ONE_OR_NOTHING = Phrase("1, or leave it out", "1，或不传")


class Simulate:
    """Gives a test call the outcome that its header asks for.

    Refuses a live call with the header: it would be charged, though its sender expects a test.
    """

    def __init__(self, links: ConsentLinks) -> None:
        self._links = links

    def __call__(self, call: Call) -> Awaitable[None] | None:
        header = call.headers.get(OUTCOME_HEADER)
        if header is None:
            return None
        if not call.caller.is_test:
            raise _invalid(call, _NOT_A_TEST)
        wanted = header.decode("latin-1")
        if slow := _SLOW.fullmatch(wanted):
            return asyncio.sleep(min(int(slow[1]), SLOW_MAX_MS) / 1000)
        if wanted not in call.operation.outcomes:
            raise _invalid(call, _NOT_KNOWN)
        call.sandbox_outcome = call.operation.sandbox_outcomes.get(wanted)
        if call.sandbox_outcome is None:
            call.is_simulated = True
            raise self._refusal(call, Reason[wanted])
        return None

    def _refusal(self, call: Call, reason: Reason) -> Refusal:
        refusal = sample_refusal(reason, call.operation)
        need = call.operation.consent
        if reason is Reason.NOT_AUTHORIZED and need is not None:
            asked = GrantRequest(call.caller.account_id, need.whose, "sandbox", call.operation_name)
            link = self._links.make(asked, call.at_s, is_sandbox=True)
            refusal.data = {"authorize_url": link.url, "expires_at": link.expires_at_s}
        return refusal


def _invalid(call: Call, problem: Phrase) -> Refusal:
    own = call.operation.sandbox_outcomes
    expected = Phrase(
        "with a test token "
        f"{', '.join(('a reason that this operation has', *own))} or slow:MILLISECONDS",
        f"{'、'.join(('该接口的原因名称', *own))}或 slow:毫秒数，并使用测试令牌",
    )
    return Refusal(
        Reason.PARAMETER_INVALID, field="X-Tollway-Outcome", problem=problem, expected=expected
    )


class DryRunAnswer(msgspec.Struct, frozen=True):
    """The payload of a dry run. `cost` is what a success takes at most; `left` is the balance, of
    which a test token learns nothing."""

    dry_run: bool
    cost: int
    unit: str
    left: int


class DryRunDone(Exception):  # noqa: N818 - it is an answer, not a fault
    """Ends a dry run that found no reason to refuse the call."""


class DryRun:
    """Ends a call before anything is done, and answers what it would cost.

    The earlier stages have refused what would be refused now. Whether the requested data exists is
    known only when the call is done.
    """

    def __init__(self, callers: CallerCache, perform: Perform, zone: ZoneInfo) -> None:
        self._callers = callers
        self._perform = perform
        self._zone = zone

    def __call__(self, call: Call) -> Awaitable[None] | None:
        header = call.headers.get(DRY_RUN_HEADER)
        if header is None:
            return None
        if not _DRY_RUN.fullmatch(header):
            # A call whose sender expects a dry run must not be charged.
            raise Refusal(
                Reason.PARAMETER_INVALID,
                field="X-Tollway-Dry-Run",
                problem=_NOT_ONE,
                expected=_ONE_OR_NOTHING,
            )
        return self._answer(call)

    async def _answer(self, call: Call) -> None:
        unit = call.operation.balance_unit
        calls = 1
        if call.operation.batch_of is not None:
            calls = len(call.request.waybills)
            call.price *= calls
        if call.operation.is_measured:
            waiting = self._perform(call)
            if waiting is not None:
                await waiting
        left = 0 if call.caller.is_test else await self._left(call, unit, calls)
        call.is_dry_run = True
        call.data = encode_data(DryRunAnswer(True, call.price, unit, left))
        raise DryRunDone

    async def _left(self, call: Call, unit: str, calls: int) -> int:
        """The balance left; raises an error if it, or the token's cap, does not cover so many
        calls."""
        cap = day_cap(call, self._zone)
        if cap is not None:
            await self._callers.check_cap(call.caller.token_id, cap, unit, call.price, calls)
        left = await self._callers.amount_left(call.caller.account_id, unit)
        if left < call.price:
            raise ShortageError(left)
        return left
