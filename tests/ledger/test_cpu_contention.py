"""Whether the cores are short, as the kernel counts it and a clock of the test says."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tollway.ledger import charge_queue
from tollway.ledger.charge_queue import CpuContention

SCHEDSTAT = Path("/proc/thread-self/schedstat")
# Asks at a moment, in seconds, when the thread has waited for so many nanoseconds in all.
Ask = Callable[[float, object], bool]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    counted, cores = tmp_path / "schedstat", CpuContention()
    monkeypatch.setattr(charge_queue, "_COUNTED", counted)

    def run(now_s: float, waited_ns: object) -> bool:
        counted.write_text(f"7000000000 {waited_ns} 3\n")
        monkeypatch.setattr(charge_queue, "monotonic", lambda: now_s)
        return cores.is_short()

    return run


def test_the_cores_are_short_from_a_tenth_of_the_time_on(ask: Ask) -> None:
    assert not ask(1000, 2_000_000_000)
    assert not ask(1010, 2_999_999_999)
    assert ask(1020, 3_999_999_999)
    assert ask(1021, 4_999_999_999)
    # A thread that had a core whenever it wanted has enough of them.
    assert not ask(1031, 4_999_999_999)
    assert not ask(1041, 5_900_000_000)


@pytest.mark.parametrize(("waited_ns", "is_short"), [(10**9, True), (95 * 10**7, False)])
def test_the_first_count_is_of_all_the_time_since_the_machine_started(
    ask: Ask, waited_ns: int, is_short: bool
) -> None:
    assert ask(10, waited_ns) is is_short


def test_the_count_is_read_four_times_a_second(ask: Ask) -> None:
    assert not ask(1000, 0)
    assert not ask(1000.2, 900_000_000)
    assert ask(1000.25, 900_000_000)
    assert ask(1000.4, 900_000_000)
    assert not ask(1000.5, 900_000_000)


@pytest.mark.parametrize("is_short", [True, False])
def test_a_count_that_cannot_be_read_changes_nothing(ask: Ask, is_short: bool) -> None:
    assert ask(1000, 10**12 if is_short else 0) is is_short
    assert ask(1001, "none") is is_short


@pytest.mark.parametrize("content", [None, "", "1", "none none"])
def test_where_nothing_is_counted_the_cores_are_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    counted = tmp_path / "schedstat"
    if content is not None:
        counted.write_text(content)
    monkeypatch.setattr(charge_queue, "_COUNTED", counted)
    assert CpuContention().is_short() is False


@pytest.mark.skipif(not SCHEDSTAT.exists(), reason="the kernel does not count, or does not say")
def test_the_count_is_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the machine had started this very moment, so that the least wait is a long one.
    monkeypatch.setattr(charge_queue, "_READ_S", 0)
    monkeypatch.setattr(charge_queue, "monotonic", lambda: 1e-9)
    assert CpuContention().is_short()
