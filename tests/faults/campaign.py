"""Running the trials of many batches."""

import asyncio
import logging
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial
from pathlib import Path

from tests.faults.batches import Batch, Kinds, random_batch
from tests.faults.disk import Fault
from tests.faults.gateway import faulty_gateway
from tests.faults.network import random_break
from tests.faults.trials import Trials, random_fault
from tests.support import engines
from tests.support.fake_carrier import FakeCarrier

# A database for so many batches: its ledger stays short, and reading all of it quick.
_BATCHES_EACH = 5
# In memory, where that is a folder: waiting for a disk would add nothing.
_MEMORY = Path("/dev/shm")
_FOLDER = _MEMORY if _MEMORY.is_dir() else None


class Outcome:
    """What was wrong, and how much was tried."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.figures: Counter[str] = Counter()
        self.failed: Counter[tuple[str, str]] = Counter()

    def __str__(self) -> str:
        figures = ", ".join(f"{count:,} {name}" for name, count in self.figures.items())
        failed = ", ".join(f"{' '.join(of)} {count:,}" for of, count in sorted(self.failed.items()))
        return f"{figures}; what failed: {failed}"


def run_random(
    batches: int, today: date, carrier: FakeCarrier, seed: int, audit_every: int
) -> Outcome:
    """Ends as soon as anything is wrong."""
    outcome, chance = Outcome(), random.Random(seed)
    for done in range(0, batches, _BATCHES_EACH):
        run(
            [partial(random_batch, chance=chance)] * min(_BATCHES_EACH, batches - done),
            partial(random_break if engines.in_use() == "postgresql" else random_fault, chance),
            today,
            carrier,
            audit_every,
            outcome,
        )
        if outcome.wrong:
            break
    return outcome


def run(
    batches: list[Callable[[Kinds], Batch]],
    fault_at: Callable[[int], Fault],
    today: date,
    carrier: FakeCarrier,
    audit_every: int,
    outcome: Outcome,
) -> None:
    """Tries batches on a database of their own."""

    async def work(folder: Path) -> None:
        async with faulty_gateway(folder, today, carrier) as faulty:
            trials = Trials(faulty, today, audit_every)
            for batch in batches:
                tried = trials.of_batch(batch(Kinds(faulty.callers, today)), fault_at)
                outcome.wrong += [each async for each in tried]
                if outcome.wrong:
                    break
            outcome.figures += trials.figures
            outcome.failed += faulty.faults.total

    with _quiet(), tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
        asyncio.run(work(Path(folder)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without a line in the log for each of the many calls that fail as they should."""
    logger = logging.getLogger("tollway")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
