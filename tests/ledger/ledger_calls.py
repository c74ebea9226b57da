"""What the callers of the ledger's machine ask for, and the answers they get."""

from typing import NamedTuple

import msgspec

# What calls can ask for.
DATA = "data"  # an answer that is known before it is paid
DEED = "deed"  # something that is there exactly if it was paid
FREE = "free"  # an answer that costs nothing, because it was paid for earlier
BREAK = "break"  # fails before anything is charged
FAIL = "fail"  # does its deed, then fails in the transaction
TAKEN, REFUSED, SILENT = "taken", "refused", "silent"  # another system decides, on a hold
ERRANDS = (TAKEN, REFUSED, SILENT)
EARLIER = "an earlier request"


class Asked(msgspec.Struct, frozen=True):
    """A request. `number` is what its deed or errand is known by, however often it is sent."""

    what: str
    number: int


class Wanted(NamedTuple):
    """One call."""

    request_id: str
    account_id: str
    token: str
    token_id: str
    operation: str
    unit: str
    # Whether its operation is let through with an empty balance, since it may cost nothing.
    may_be_free: bool
    at_ms: int
    asked: Asked
    key: str | None


class Outcome(NamedTuple):
    """What the caller hears."""

    kind: str
    data: str = ""
    charged: int = 0
    replay_of: str | None = None


SHORT, FAILED, CONFLICT = Outcome("short"), Outcome("failed"), Outcome("conflict")
NOT_LET_IN, UNHEARD = Outcome("not let in"), Outcome("unheard")


class Crash(NamedTuple):
    """The process ends at a commit: shortly before it, or shortly after."""

    at_commit: int
    is_committed: bool
