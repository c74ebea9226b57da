"""The metrics of several worker processes as one text, each sample with its worker's number."""

from collections.abc import Iterator, Mapping

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tollway.telemetry.metrics import Metrics

_LABEL = "worker"


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
    """All metrics of this process as they are now, to be handed to another one."""
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
    """The text for Prometheus: every sample with the number of the process it is from."""
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
                    made.add_sample(each.name, {_LABEL: str(number), **each.labels}, each.value)
        yield from families.values()
