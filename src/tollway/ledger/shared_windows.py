"""The calls that all workers of one SQLite file admitted in the last second.

The counts are in shared memory, and need not be durable. A worker reads and adds to them only in a
write transaction, of which there is one at a time: so it needs no other lock, and sees every call
that was admitted before.

The memory is a ring buffer of records: the time, the window, and how many calls were admitted. A
worker caches the windows that it has read, and reads only what was added since.
"""

import mmap
import struct
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from time import monotonic_ns, time

from msgspec.structs import replace

from tollway.ledger.charge_transaction import ChargeResults, post_charges
from tollway.ledger.charges import Charge, OverLimitError
from tollway.store.database import Transaction

_SECOND_NS = 1_000_000_000
# More than all workers of a machine can admit in a second, one by one.
_RECORDS = 1 << 18
_RECORD = struct.Struct("<q16sq")
# How many records were ever added.
_ADDED = struct.Struct("<q")
_FIRST = 64
_KEYS_MAX = 20_000

# An account and an operation.
Window = tuple[str, str]


def new_ring() -> mmap.mmap:
    """Memory that this process shares with its forks."""
    return mmap.mmap(-1, _FIRST + _RECORDS * _RECORD.size)


class SharedWindows:
    """One worker's view of the ring. Times are of the machine's monotonic clock, which all workers
    share."""

    def __init__(self, ring: mmap.mmap) -> None:
        self._ring = ring
        self._read = 0
        self._windows: dict[bytes, deque[tuple[int, int]]] = {}
        self._recent: deque[tuple[int, bytes]] = deque()
        self._keys: dict[Window, bytes] = {}

    def refuse(self, charges: Sequence[Charge], now_ns: int) -> dict[int, OverLimitError]:
        """The charges that are over their limit, by position. The others are admitted if they are
        then added."""
        self._catch_up(now_ns)
        refused: dict[int, OverLimitError] = {}
        counts: dict[Window, int] = {}
        for position, charge in enumerate(charges):
            if charge.limit is None:
                continue
            window = charge.account_id, charge.operation
            count = counts.get(window)
            if count is None:
                count = sum(each for _, each in self._windows.get(self._key(window), ()))
            if count >= charge.limit:
                refused[position] = self._over_limit(window, now_ns)
            else:
                count += 1
            counts[window] = count
        return refused

    def add(self, charges: Iterable[Charge], now_ns: int) -> None:
        """Counts calls that were admitted."""
        counts: dict[Window, int] = {}
        for charge in charges:
            if charge.limit is not None:
                window = charge.account_id, charge.operation
                counts[window] = counts.get(window, 0) + 1
        self._append(counts, now_ns)

    def _append(self, counts: Mapping[Window, int], now_ns: int) -> None:
        (added,) = _ADDED.unpack_from(self._ring)
        for window, count in counts.items():
            at = _FIRST + added % _RECORDS * _RECORD.size
            _RECORD.pack_into(self._ring, at, now_ns, self._key(window), count)
            added += 1
        # Last, so that a worker that is killed before this has added nothing.
        _ADDED.pack_into(self._ring, 0, added)

    def _catch_up(self, now_ns: int) -> None:
        (added,) = _ADDED.unpack_from(self._ring)
        for number in range(max(self._read, added - _RECORDS), added):
            at = _FIRST + number % _RECORDS * _RECORD.size
            at_ns, key, count = _RECORD.unpack_from(self._ring, at)
            if now_ns - at_ns < _SECOND_NS:
                self._windows.setdefault(key, deque()).append((at_ns, count))
                self._recent.append((at_ns, key))
        self._read = added
        while self._recent and now_ns - self._recent[0][0] >= _SECOND_NS:
            _, key = self._recent.popleft()
            window = self._windows[key]
            window.popleft()
            if not window:
                del self._windows[key]

    def _over_limit(self, window: Window, now_ns: int) -> OverLimitError:
        admitted = self._windows.get(self._key(window))
        # If there are none, this very batch used up the limit.
        until_ns = (admitted[0][0] if admitted else now_ns) + _SECOND_NS
        return OverLimitError((until_ns - now_ns) / _SECOND_NS, until_ns)

    def _key(self, window: Window) -> bytes:
        key = self._keys.get(window)
        if key is None:
            if len(self._keys) >= _KEYS_MAX:
                self._keys.clear()
            content = "\0".join(window).encode()
            key = self._keys[window] = blake2b(content, digest_size=16).digest()
        return key


async def post_counted(
    windows: SharedWindows, transaction: Transaction, charges: Sequence[Charge]
) -> ChargeResults:
    """Does what `post_charges` does, with the charges that are within the limits of all workers."""
    now_ns, at_ms = monotonic_ns(), int(time() * 1000)
    refused = windows.refuse(charges, now_ns)
    posted = [position for position in range(len(charges)) if position not in refused]
    # As on a server, entries carry the time of admission, in order.
    admitted = [replace(charges[position], at_ms=at_ms) for position in posted]
    found = await post_charges(transaction, admitted)
    results: ChargeResults = {posted[nth]: result for nth, result in found.items()}
    results.update(refused)
    # Failed and repeated calls are counted separately. If the commit fails, these still count, for
    # a second.
    done = (
        charge
        for position, charge in enumerate(charges)
        if not isinstance(results.get(position), Exception)
    )
    windows.add(done, now_ns)
    return results
