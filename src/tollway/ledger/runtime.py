"""Clock, calendar, ids and randomness, injected so that tests can control them."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from threading import Lock
from zoneinfo import ZoneInfo

_ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_ID_LETTERS = _ID_ALPHABET.encode("ascii") * 8
_ID_LENGTH = 12


@dataclass(frozen=True)
class Runtime:
    """What the ledger takes from outside: the time, random ids, and which operator acts, if one
    does (`trail.py`)."""

    now_s: Callable[[], float] = time.time
    pick: Callable[[str], str] = secrets.choice
    by: str = ""

    def at_s(self) -> int:
        return int(self.now_s())

    def at_ms(self) -> int:
        return int(self.now_s() * 1000)

    def new_id(self, prefix: str) -> str:
        if self.pick is not secrets.choice:
            return prefix + "".join(self.pick(_ID_ALPHABET) for _ in range(_ID_LENGTH))
        # Just as uniform, in a twentieth of the time: 256 is a multiple of 32.
        return prefix + secrets.token_bytes(_ID_LENGTH).translate(_ID_LETTERS).decode("ascii")

    def new_ordered_ids(self, prefix: str, count: int) -> list[str]:
        """Ids that begin with the time, so that an index over them grows at one end."""
        start = f"{prefix}{self.at_ms():011x}"
        if self.pick is not secrets.choice:
            return [self.new_id(start) for _ in range(count)]
        # Asks the random source once.
        ends = secrets.token_bytes(_ID_LENGTH * count).translate(_ID_LETTERS).decode("ascii")
        return [start + ends[at : at + _ID_LENGTH] for at in range(0, len(ends), _ID_LENGTH)]


def id_pattern(prefix: str) -> str:
    """A regular expression for the ids that `new_id` makes with this prefix."""
    return f"^{prefix}[{_ID_ALPHABET}]{{{_ID_LENGTH}}}$"


# How far a clock may be ahead for a moment and yet be right.
_SLIGHTLY_S = 1.0
# For work that no operator does.
UNATTENDED = Runtime()


class CautiousClock:
    """The time for what cannot be undone, such as deleting old rows. It follows the machine's
    clock; but if that jumps ahead, it only runs twice as fast until it has caught up. So a machine
    whose clock is wrong for an hour, by however much, makes this one an hour wrong at most."""

    def __init__(self) -> None:
        # The event loop and the writing thread both use it.
        self._lock = Lock()
        self._ran_s = uptime_s()
        self._believed_s = Runtime().now_s()
        # How far it is behind the machine's clock: far, if it started before that was set.
        self.behind_s = 0.0
        self._behind_at_s = self._ran_s

    def at_ms(self) -> int:
        with self._lock:
            return int(min(self._follow(), self._believed_s) * 1000)

    def ahead_ms(self) -> int:
        """How far the machine's clock is behind this one. What must not expire too early is dated
        so much later: otherwise it would be old once the machine's clock is set right."""
        with self._lock:
            now_s = self._follow()
            return max(0, int((self._believed_s - now_s) * 1000))

    def trusted_s(self) -> float:
        """For how long it has not seen the machine's clock ahead."""
        with self._lock:
            self._follow()
            return self._ran_s - self._behind_at_s

    def _follow(self) -> float:
        now_s, running_s = Runtime().now_s(), uptime_s()
        passed_s, self._ran_s = running_s - self._ran_s, running_s
        least_s = self._believed_s + passed_s
        # Runs on while the machine's clock is behind, so that setting that right is no jump.
        self._believed_s = max(least_s, min(now_s, least_s + passed_s))
        self.behind_s = max(0.0, now_s - self._believed_s)
        if self.behind_s > _SLIGHTLY_S:
            self._behind_at_s = running_s
        return now_s


def uptime_s() -> float:
    """The time since boot, including sleep; this clock cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_cautious_clock = CautiousClock()


def cautious_clock() -> CautiousClock:
    """The one of this process."""
    return _cautious_clock


class Calendar:
    """Today's date in a time zone; computed once a day, because every call asks."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self._from_s = self._until_s = 0.0
        self._today = date.min

    def today(self) -> date:
        now_s = time.time()
        if not self._from_s <= now_s < self._until_s:
            now = datetime.fromtimestamp(now_s, self._zone)
            midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
            self._from_s = midnight.timestamp()
            self._until_s = (midnight + timedelta(days=1)).timestamp()
            self._today = now.date()
        return self._today
