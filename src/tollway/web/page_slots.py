"""The slots of pages: how many are made at once, and how much of the event loop they take."""

import asyncio

from tollway.store.concurrency import TurnSlots
from tollway.store.loop_share import LoopShare


class PageSlots(TurnSlots):
    """Slots that are given on later if pages have taken more than their part of the event loop.

    With a page in every turn of the loop, a call would wait for several of them.
    """

    def __init__(self, number: int, busy: str) -> None:
        super().__init__(number, busy)
        self._share = LoopShare()

    def leave_after(self, took_s: float) -> None:
        """Gives back the slot of a page that took the loop for so long."""
        self._share.use(took_s)
        rest_s = self._share.rest_s()
        if rest_s > 0:
            asyncio.get_running_loop().call_later(rest_s, self.leave)
        else:
            self.leave()
