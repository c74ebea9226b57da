"""How long calls take, from the metrics of all workers of this gateway."""

import re
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tollway.operations.catalogue import BY_NAME

# A histogram bucket of Prometheus: the labels, and how many calls took at most `le`.
_BUCKET = re.compile(rb"^tollway_call_seconds_bucket\{([^}]*)\} ([0-9.e+]+)$", re.MULTILINE)
_LABEL = re.compile(rb'(\w+)="([^"]*)"')
_APART_S = 60
_KEPT = 60

Counts = dict[float, float]


class Percentiles(NamedTuple):
    """The median (`half_ms`) and the 99th percentile (`most_ms`)."""

    calls: int
    half_ms: float
    most_ms: float
    since_s: float


class Latencies:
    """Percentiles of about the last hour: the difference to an older reading of the counters."""

    def __init__(self, read: Callable[[], Awaitable[bytes]], since_s: float) -> None:
        self._read = read
        self._readings: deque[tuple[float, Counts]] = deque([(since_s, {})], maxlen=_KEPT)

    async def recent(self, now_s: float) -> Percentiles | None:
        """None before the first call."""
        counts = _counts(await self._read())
        since_s, before = self._readings[0]
        if now_s - self._readings[-1][0] >= _APART_S:
            self._readings.append((now_s, counts))
        # A restarted worker counts from 0 again.
        new = {bound: max(0.0, count - before.get(bound, 0.0)) for bound, count in counts.items()}
        total = new.get(float("inf"), 0.0)
        if not total:
            return None
        half, most = (_at(new, share * total) * 1000 for share in (0.5, 0.99))
        return Percentiles(int(total), half, most, since_s)


def _counts(metrics: bytes) -> Counts:
    """The calls of operations up to each bound, summed over all workers."""
    counts: defaultdict[float, float] = defaultdict(float)
    for labels, count in _BUCKET.findall(metrics):
        named = {name.decode(): value.decode() for name, value in _LABEL.findall(labels)}
        if named.get("operation") in BY_NAME:
            counts[float(named["le"])] += float(count)
    return dict(counts)


def _at(counts: Counts, wanted: float) -> float:
    """The time within which this many calls were answered, interpolated between the bounds."""
    below, bound_before = 0.0, 0.0
    for bound in sorted(counts):
        if counts[bound] >= wanted:
            if bound == float("inf") or counts[bound] == below:
                return bound_before
            share = (wanted - below) / (counts[bound] - below)
            return bound_before + share * (bound - bound_before)
        below, bound_before = counts[bound], bound
    return bound_before
