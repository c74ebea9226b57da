"""The gateway's Prometheus metrics: one object that every part gets, merged over all workers.

What every call counts is kept in plain numbers and turned into Prometheus families on request: the
client library's own counters take a lock per increment, which would slow calls down.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from tollway.telemetry.gauges import Gauges
from tollway.telemetry.requests import CallRecord

_LATENCY_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 10.0)
_BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class _Latency:
    """How long one operation's calls took: how many per bucket, and the sum."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(_LATENCY_BUCKETS_S) + 1)
        self.sum_s = 0.0

    def cumulative(self) -> list[tuple[str, float]]:
        total, buckets = 0, []
        for bound, count in zip((*_LATENCY_BUCKETS_S, "+Inf"), self.counts, strict=True):
            total += count
            buckets.append((str(bound), float(total)))
        return buckets


class Metrics(Collector):
    """All metrics of one process."""

    def __init__(self) -> None:
        self._calls: defaultdict[tuple[str, int, str], int] = defaultdict(int)
        self._latencies: defaultdict[str, _Latency] = defaultdict(_Latency)
        self.before_collecting: Callable[[], None] = lambda: None
        self.log_lines_dropped: Callable[[], int] = lambda: 0
        # Start at 0, so that the first one shows as an increase.
        self._receipts_dropped = {"too_fast": 0, "queue_full": 0}
        self._tokens_asked: defaultdict[str, int] = defaultdict(int)
        self._pushes: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._pushed_records: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._reads = 0
        self._read_s = 0.0
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self.database_write_s = Histogram(
            "tollway_database_write_seconds",
            "Time of one durable commit, with the work in it.",
            buckets=_LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.settle_batch = Histogram(
            "tollway_settle_batch_calls",
            "Calls charged in one commit.",
            buckets=_BATCH_BUCKETS,
            registry=self.registry,
        )
        self.calls_under_way = Gauge(
            "tollway_calls_under_way", "Calls being worked on now.", registry=self.registry
        )
        self.gauges = Gauges()
        self.registry.register(self.gauges)

    def answered(self, records: Iterable[CallRecord]) -> None:
        calls, latencies = self._calls, self._latencies
        for _, _, operation, _, code, reason, _, elapsed_s, _, is_test, _ in records:
            calls[operation, code, reason] += 1
            # The sandbox of an account is made by its first call, which takes seconds.
            if is_test:
                continue
            latency = latencies[operation]
            latency.counts[bisect_left(_LATENCY_BUCKETS_S, elapsed_s)] += 1
            latency.sum_s += elapsed_s

    def wrote(self, elapsed_s: float) -> None:
        self.database_write_s.observe(elapsed_s)

    def read(self, elapsed_s: float) -> None:
        self._reads += 1
        self._read_s += elapsed_s

    def receipt_dropped(self, cause: str) -> None:
        self._receipts_dropped[cause] += 1

    def token_asked(self, answer: str) -> None:
        self._tokens_asked[answer] += 1

    def pushed(self, kind: str, outcome: str) -> None:
        self._pushes[kind, outcome] += 1

    def pushed_records(self, kind: str, counts: Mapping[str, int]) -> None:
        for result, count in counts.items():
            self._pushed_records[kind, result] += count

    def render(self) -> bytes:
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        """The families behind the plain numbers."""
        self.before_collecting()
        yield from self._of_calls()
        yield _counter(
            "tollway_receipts_dropped",
            "Calls that were not charged and of which no receipt is kept, by cause.",
            ("cause",),
            [((cause,), count) for cause, count in self._receipts_dropped.items()],
        )
        yield CounterMetricFamily(
            "tollway_log_lines_dropped",
            "Log lines dropped because standard error took no more.",
            value=self.log_lines_dropped(),
        )
        yield _counter(
            "tollway_tokens_asked",
            "Requests of clients for a token, by answer: issued, or the error.",
            ("answer",),
            [((answer,), count) for answer, count in self._tokens_asked.items()],
        )
        yield _counter(
            "tollway_pushes",
            "Pushes answered, by kind and outcome: stored, or why not.",
            ("kind", "outcome"),
            self._pushes.items(),
        )
        yield _counter(
            "tollway_pushed_records",
            "Records of pushes that were stored, by kind and result.",
            ("kind", "result"),
            self._pushed_records.items(),
        )
        yield self._latency_family(self._latencies.items())
        yield SummaryMetricFamily(
            "tollway_database_read_seconds",
            "Time of one reading statement; one may serve several calls.",
            count_value=self._reads,
            sum_value=self._read_s,
        )

    def _of_calls(self) -> Iterator[Metric]:
        yield _counter(
            "tollway_calls",
            "Calls answered, by operation, code and reason.",
            ("operation", "code", "reason"),
            [((each[0], str(each[1]), each[2]), count) for each, count in self._calls.items()],
        )
        unpaid = ("CALLS_USED_UP", "CREDITS_USED_UP")
        yield CounterMetricFamily(
            "tollway_balances_refused",
            "Calls refused because the account could not pay.",
            value=sum(count for (_, _, reason), count in self._calls.items() if reason in unpaid),
        )

    @staticmethod
    def _latency_family(latencies: Iterable[tuple[str, _Latency]]) -> Metric:
        family = HistogramMetricFamily(
            "tollway_call_seconds",
            "Time from the request to the answer, of live calls.",
            labels=("operation",),
        )
        for operation, latency in latencies:
            family.add_metric((operation,), latency.cumulative(), latency.sum_s)
        return family


def _counter(
    name: str,
    documentation: str,
    labels: Sequence[str],
    counts: Iterable[tuple[Sequence[str], int]],
) -> Metric:
    family = CounterMetricFamily(name, documentation, labels=labels)
    for values, count in counts:
        family.add_metric(values, count)
    return family


class _Sample(msgspec.Struct, frozen=True, array_like=True):
    name: str
    labels: dict[str, str]
    value: float


class _Family(msgspec.Struct, frozen=True, array_like=True):
    name: str
    documentation: str
    kind: str
    samples: list[_Sample]


def snapshot(metrics: Metrics) -> bytes:
    """All metrics of this process as they are now, for another process."""
    return msgspec.msgpack.encode(
        [
            _Family(
                family.name,
                family.documentation,
                family.type,
                [_Sample(each.name, each.labels, each.value) for each in family.samples],
            )
            for family in metrics.registry.collect()
        ]
    )


def merged(snapshots: Mapping[int, bytes]) -> bytes:
    """The metrics of several worker processes as one text, each sample with its worker's number."""
    registry = CollectorRegistry()
    registry.register(_Merged(snapshots))
    return generate_latest(registry)


class _Merged(Collector):
    def __init__(self, snapshots: Mapping[int, bytes]) -> None:
        self._snapshots = snapshots

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for number, snapshot in self._snapshots.items():
            for family in msgspec.msgpack.decode(snapshot, type=list[_Family]):
                made = families.setdefault(
                    family.name, Metric(family.name, family.documentation, family.kind)
                )
                for each in family.samples:
                    made.add_sample(each.name, {"worker": str(number), **each.labels}, each.value)
        yield from families.values()
