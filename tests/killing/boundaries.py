"""The places at which a gateway is killed: around every commit that moves money or a waybill, and
around every message to a carrier."""

from typing import NamedTuple

PLAIN = "plain charge"
KEPT = "charge with its answer kept"
POOL = "waybill from a pool"
HOLD = "hold"
CAPTURE = "capture"
RELEASE = "release"
LATE_CAPTURE = "capture by reconciliation"
LATE_RELEASE = "release by reconciliation"
COMMITS = (PLAIN, KEPT, POOL, HOLD, CAPTURE, RELEASE, LATE_CAPTURE, LATE_RELEASE)

ISSUE = "message that asks for a number"
LOOK_UP = "message that looks a number up"
MESSAGES = (ISSUE, LOOK_UP)

_FREQUENT = (PLAIN, KEPT, POOL, HOLD, CAPTURE, ISSUE)


class Boundary(NamedTuple):
    """Just before or just after the n-th piece of such work of one gateway's life."""

    side: str
    work: str
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.side} {self.work}"


def boundaries(nth: int = 1) -> list[Boundary]:
    """All of them. What reconciliation does comes last, when there is something left to be done.

    A boundary that is reached often can be passed some times before.
    """
    return [
        Boundary(side, work, nth if work in _FREQUENT else 1)
        for work in (*COMMITS[:6], *MESSAGES, *COMMITS[6:])
        for side in ("before", "after")
    ]
