"""The curves of docs/performance.md: what a call costs against what grows."""

from pathlib import Path

import msgspec

from bench.charts import Series, bars, curves, number_text

CURVES_FILE = Path("performance/growth.json")


class Curve(msgspec.Struct):
    """Microseconds of processor time per call, or another unit, against numbers or, without
    numbers, against names."""

    name: str
    title: str
    axis: str
    why: str
    xs: list[float]
    series: dict[str, list[float]]
    names: list[str] = []
    unit: str = "µs per call"

    @property
    def sentence(self) -> str:
        """What the curve says: the first point, the last, and the highest ratio to the first."""
        parts = []
        for name, values in self.series.items():
            first, last = self._ends()
            parts.append(
                f"{name}: {number_text(values[0])} {self.unit} at {first}, "
                f"{number_text(values[-1])} at {last} ({values[-1] / values[0]:.2f} times), "
                f"at most {max(values) / values[0]:.2f} times the first"
            )
        return f"{'; '.join(parts)}. {self.why}"

    def _ends(self) -> tuple[str, str]:
        if self.names:
            return self.names[0], self.names[-1]
        return self._at(self.xs[0]), self._at(self.xs[-1])

    def _at(self, x: float) -> str:
        if self.axis == "page":
            return f"page {number_text(x)}"
        return f"{number_text(x)} {self.axis.removesuffix('s') if x == 1 else self.axis}"

    def drawn(self) -> str:
        series = [Series(name, values) for name, values in self.series.items()]
        if self.names:
            return bars(f"{self.title}, {self.unit}", self.names, series, is_log=False)
        return curves(f"{self.title}, {self.unit}", self.axis, self.xs, series)


class Growth(msgspec.Struct):
    """One run of `make growth`."""

    made_at: str
    length: str
    machine: dict[str, str]
    curves: list[Curve]
