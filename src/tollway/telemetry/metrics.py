"""The gateway's metrics for Prometheus: one object that every part gets, merged over all workers.

What is counted are plain numbers without locks; families are made of them on request. Few lines do
what a library would take 4 MB and a thirtieth of the time of a start for.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from tollway.telemetry.families import Family, Histogram, Sample, labelled, single, text_of
from tollway.telemetry.gauges import Gauges
from tollway.telemetry.requests import CallRecord

_LATENCY_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 10.0)
_BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """All metrics of one process."""

    def __init__(self) -> None:
        self._calls: defaultdict[tuple[str, int, str], int] = defaultdict(int)
        self._latencies = defaultdict[str, Histogram](lambda: Histogram(_LATENCY_BUCKETS_S))
        self.before_collecting: Callable[[], None] = lambda: None
        self.log_lines_dropped: Callable[[], int] = lambda: 0
        self.calls_under_way: Callable[[], int] = lambda: 0
        # Start at 0, so that the first one shows as an increase.
        self._receipts_dropped = {"too_fast": 0, "queue_full": 0}
        self._tokens_asked: defaultdict[str, int] = defaultdict(int)
        self._pushes: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._pushed_records: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._reads = 0
        self._read_s = 0.0
        self._writes_s = Histogram(_LATENCY_BUCKETS_S)
        self._batches = Histogram(_BATCH_BUCKETS)
        self.gauges = Gauges()

    def answered(self, records: Iterable[CallRecord]) -> None:
        calls, latencies = self._calls, self._latencies
        for _, _, operation, _, code, reason, _, elapsed_s, _, is_test, _ in records:
            calls[operation, code, reason] += 1
            # The sandbox of an account is made by its first call, which takes seconds.
            if is_test:
                continue
            latency = latencies[operation]
            latency.counts[bisect_left(_LATENCY_BUCKETS_S, elapsed_s)] += 1
            latency.sum += elapsed_s

    def wrote(self, elapsed_s: float) -> None:
        self._writes_s.observe(elapsed_s)

    def settled(self, calls: int) -> None:
        self._batches.observe(calls)

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
        return text_of(self.collect())

    def collect(self) -> Iterator[Family]:
        """The families of the numbers as they are now."""
        self.before_collecting()
        yield from self._of_calls()
        yield labelled(
            "counter",
            "tollway_receipts_dropped_total",
            "Calls that were not charged and of which no receipt is kept, by cause.",
            ("cause",),
            [((cause,), count) for cause, count in self._receipts_dropped.items()],
        )
        yield single(
            "counter",
            "tollway_log_lines_dropped_total",
            "Log lines dropped because standard error took no more.",
            self.log_lines_dropped(),
        )
        yield labelled(
            "counter",
            "tollway_tokens_asked_total",
            "Requests of clients for a token, by answer: issued, or the error.",
            ("answer",),
            [((answer,), count) for answer, count in self._tokens_asked.items()],
        )
        yield labelled(
            "counter",
            "tollway_pushes_total",
            "Pushes answered, by kind and outcome: stored, or why not.",
            ("kind", "outcome"),
            self._pushes.items(),
        )
        yield labelled(
            "counter",
            "tollway_pushed_records_total",
            "Records of pushes that were stored, by kind and result.",
            ("kind", "result"),
            self._pushed_records.items(),
        )
        yield from self._of_database()
        yield from self.gauges.collect()

    def _of_calls(self) -> Iterator[Family]:
        yield labelled(
            "counter",
            "tollway_calls_total",
            "Calls answered, by operation, code and reason.",
            ("operation", "code", "reason"),
            [((each[0], str(each[1]), each[2]), count) for each, count in self._calls.items()],
        )
        unpaid = ("CALLS_USED_UP", "CREDITS_USED_UP")
        yield single(
            "counter",
            "tollway_balances_refused_total",
            "Calls refused because the account could not pay.",
            sum(count for (_, _, reason), count in self._calls.items() if reason in unpaid),
        )
        name = "tollway_call_seconds"
        yield Family(
            "histogram",
            name,
            "Time from the request to the answer, of live calls.",
            [
                sample
                for operation, latency in self._latencies.items()
                for sample in latency.samples(name, {"operation": operation})
            ],
        )
        yield single(
            "gauge",
            "tollway_calls_under_way",
            "Calls being worked on now.",
            self.calls_under_way(),
        )

    def _of_database(self) -> Iterator[Family]:
        name = "tollway_database_read_seconds"
        yield Family(
            "summary",
            name,
            "Time of one reading statement; one may serve several calls.",
            [Sample(f"{name}_count", {}, self._reads), Sample(f"{name}_sum", {}, self._read_s)],
        )
        name = "tollway_database_write_seconds"
        yield Family(
            "histogram",
            name,
            "Time of one durable commit, with the work in it.",
            list(self._writes_s.samples(name)),
        )
        name = "tollway_settle_batch_calls"
        yield Family(
            "histogram", name, "Calls charged in one commit.", list(self._batches.samples(name))
        )


def snapshot(metrics: Metrics) -> bytes:
    """All metrics of this process as they are now, for another process."""
    return msgspec.msgpack.encode(list(metrics.collect()))


def merged(snapshots: Mapping[int, bytes]) -> bytes:
    """The metrics of several worker processes as one text, each sample with its worker's number."""
    families: dict[str, Family] = {}
    for number, snapshot in snapshots.items():
        for family in msgspec.msgpack.decode(snapshot, type=list[Family]):
            whole = families.setdefault(
                family.name, Family(family.kind, family.name, family.meaning, [])
            )
            whole.samples.extend(
                Sample(each.name, {"worker": str(number), **each.labels}, each.value)
                for each in family.samples
            )
    return text_of(families.values())
