"""The stages of a kind of call, as a linked list: one object says where a call is, so that calls at
the same stage can be grouped by it."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from time import perf_counter_ns
from types import FunctionType
from typing import Any, final

import msgspec

from tollway.ledger.charge_queue import PendingCharge
from tollway.pipeline.bodies import FirstPiece
from tollway.pipeline.call import KEY_HEADER, Answer, Call, Stage
from tollway.pipeline.dry_run import DRY_RUN_HEADER, OUTCOME_HEADER, DryRun, Simulate
from tollway.pipeline.envelope import Enveloper
from tollway.pipeline.replay import Replay

# The stages that do nothing unless a call has one of these headers.
_FOR_HEADERS = (Simulate, DryRun, Replay)
HEADERS = frozenset((OUTCOME_HEADER, DRY_RUN_HEADER, KEY_HEADER))


class Step:
    """A stage, the step after it, and the envelope at the end of all. The last has no stage."""

    def __init__(
        self, enveloper: Enveloper, stage: Stage | None = None, after: "Step | None" = None
    ) -> None:
        self.enveloper = enveloper
        self.stage = stage
        self.after = after or self


class Steps:
    """Stages in their order, and the envelope at their end."""

    def __init__(self, stages: Sequence[Stage], enveloper: Enveloper) -> None:
        # The first step; and the first for a call with none of these headers, which skips the
        # stages that would do nothing.
        self.all = _linked(stages, enveloper)
        usual = [each for each in stages if not isinstance(each, _FOR_HEADERS)]
        self.usual = _linked(usual, enveloper)
        self._stages, self._enveloper = stages, enveloper
        # The first step of a timed call, if calls of this kind are timed.
        self.timed: Step | None = None

    def with_timing(self) -> "Steps":
        self.timed = _linked(map(_timed, self._stages), self._enveloper)
        return self


def _linked(stages: Iterable[Stage], enveloper: Enveloper) -> Step:
    """The first step."""
    step = Step(enveloper)
    for stage in reversed(list(stages)):
        # The bound method, because calling that takes a third of the time.
        method = stage if isinstance(stage, FunctionType) else stage.__call__
        step = Step(enveloper, method, step)
    return step


def _timed(stage: Stage) -> Stage:
    """The stage, wrapped to note when a call reaches it."""
    name = type(stage).__name__.lower()

    def run(call: Call) -> Awaitable[object] | Exception | None:
        assert call.reached is not None
        call.reached.append((name, perf_counter_ns()))
        return stage(call)

    return run


@final
class Waiting(msgspec.Struct, frozen=True):
    """A call that waits only for a short body or its charge, and the step after that.

    Most paid calls wait for nothing else. A callback costs a fifth of a waiting task.
    """

    call: Call
    pending: FirstPiece | PendingCharge
    after: Step


# What became of a call so far: its answer, or what it still waits for.
Progress = Answer | Waiting | Coroutine[Any, Any, Answer]
# Continues calls whose wait is over; returns the progress of each, in the same order.
GoOn = Callable[[Sequence[Waiting]], list[Progress]]


async def answer_of(progress: Progress, go_on: GoOn) -> Answer:
    """The answer to a call, awaited if necessary."""
    while type(progress) is Waiting:
        with suppress(Exception):
            # `go_on` handles the error.
            await progress.pending
        [progress] = go_on([progress])
    return progress if isinstance(progress, Answer) else await progress


async def failing(error: BaseException) -> Answer:
    """The progress of a call that ends without an answer, so that it alone fails."""
    raise error
