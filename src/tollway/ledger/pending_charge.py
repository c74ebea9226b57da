"""A charge under way, which its call awaits."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from types import TracebackType
from typing import Any

import msgspec

from tollway.ledger.charges import ActResult, Charge


class PendingCharge(msgspec.Struct, eq=False):
    """A charge that waits to be posted: has as much of a future as is needed, at a fifth of the
    cost. It takes a single callback, which runs at once instead of on the loop."""

    charge: Charge
    since_s: float
    is_patient: bool = True
    # What its stage does with the result, if anything.
    then: Callable[[ActResult | None], Awaitable[None] | None] | None = None
    _is_done: bool = False
    _outcome: ActResult | BaseException | None = None
    _trace: TracebackType | None = None
    _callback: Callable[["PendingCharge"], object] | None = None

    def done(self) -> bool:
        return self._is_done

    def result(self) -> ActResult | None:
        assert self._is_done
        if isinstance(self._outcome, BaseException):
            # The calls of a batch may share one error, and each raise would lengthen its traceback.
            raise self._outcome.with_traceback(self._trace)
        return self._outcome

    def resume(self) -> Awaitable[None] | None:
        """Continues the stage that waited; most stages do nothing more."""
        assert self._is_done
        outcome = self._outcome
        if isinstance(outcome, BaseException):
            self.result()  # Raises.
        elif self.then is not None:
            return self.then(outcome)
        return None

    def add_done_callback(self, callback: Callable[["PendingCharge"], object]) -> None:
        assert self._callback is None
        if self._is_done:
            self._call_back(callback)
        else:
            self._callback = callback

    def end(self, outcome: ActResult | BaseException | None) -> None:
        """Ends the wait, unless it has already ended."""
        if self._is_done:
            return
        self._is_done, self._outcome = True, outcome
        if isinstance(outcome, BaseException):
            self._trace = outcome.__traceback__
        callback = self._callback
        if callback is not None:
            self._callback = None
            self._call_back(callback)

    def cancel(self) -> None:
        """The caller has disconnected: it is not charged, unless its batch has begun."""
        self.end(asyncio.CancelledError())

    def _call_back(self, callback: Callable[["PendingCharge"], object]) -> None:
        try:
            callback(self)
        except Exception as error:
            # An error here must not keep the rest of the batch from being answered.
            context = {"message": "an error after a charge", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def __await__(self) -> Generator[Any, None, ActResult | None]:
        if not self._is_done:
            waiter = asyncio.get_running_loop().create_future()
            self.add_done_callback(partial(_wake, waiter))
            try:
                yield from waiter
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.result()


def _wake(waiter: asyncio.Future[None], _: PendingCharge) -> None:
    if not waiter.done():
        waiter.set_result(None)
