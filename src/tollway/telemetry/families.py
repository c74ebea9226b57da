"""What metrics are made of, families of samples, and their text for Prometheus."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """One value, by its labels. The name is that of the family, for histograms with an ending."""

    name: str
    labels: dict[str, str]
    value: float


class Family(msgspec.Struct, frozen=True, array_like=True):
    """All samples of a metric; `kind` is counter, gauge, histogram or summary."""

    kind: str
    name: str
    meaning: str
    samples: list[Sample]


class Histogram:
    """How many values are in each bucket, and their sum. Only one thread may add to it."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def samples(self, name: str, labels: Mapping[str, str] | None = None) -> Iterator[Sample]:
        named = dict(labels or {})
        total = 0
        bounds = (*map(float, self.bounds), "+Inf")
        for bound, count in zip(bounds, tuple(self.counts), strict=True):
            total += count
            yield Sample(f"{name}_bucket", {**named, "le": str(bound)}, total)
        yield Sample(f"{name}_count", named, total)
        yield Sample(f"{name}_sum", named, self.sum)


def single(kind: str, name: str, meaning: str, value: float | None) -> Family:
    """A metric without labels; it is left out while its value is not known."""
    return labelled(kind, name, meaning, (), [] if value is None else [((), value)])


def labelled(
    kind: str,
    name: str,
    meaning: str,
    labels: Sequence[str],
    values: Iterable[tuple[Sequence[str], float]],
) -> Family:
    samples = [
        Sample(name, dict(zip(labels, key, strict=True)), float(value)) for key, value in values
    ]
    return Family(kind, name, meaning, samples)


def text_of(families: Iterable[Family]) -> bytes:
    lines = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.meaning}\n")
        lines.append(f"# TYPE {family.name} {family.kind}\n")
        lines += map(_line, family.samples)
    return "".join(lines).encode()


def _line(sample: Sample) -> str:
    labels = ",".join(
        f'{name}="{value.translate(_ESCAPED)}"' for name, value in sorted(sample.labels.items())
    )
    name = f"{sample.name}{{{labels}}}" if labels else sample.name
    return f"{name} {float(sample.value)}\n"
