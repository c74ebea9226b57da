"""What the demo data of all subjects has in common: where it goes, and how much of it."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice
from zoneinfo import ZoneInfo

from tollway.intake.loading import CHUNK_RECORDS, Loader, store_records
from tollway.store.database import Database
from tollway.store.sealing import Sealer

DEMO_SEED = 20260101
# The owner ids of the demo world's shops; the first has authorized the demo account.
DEMO_SHOPS = ("880012001", "880012002", "880012003")

Progress = Callable[[int], None]


def no_progress(_: int) -> None:
    """For callers that show no progress."""


@dataclass(frozen=True)
class DemoTarget:
    """The database that demo data is stored in. The sandbox gets a small part of the demo world."""

    database: Database
    sealer: Sealer
    today: date
    zone: ZoneInfo
    is_sandbox: bool = False
    # When a world is continued: only what has changed in so many days.
    newest_days: int | None = None
    progress: Progress = no_progress

    def days(self, all_days: int, changing_days: int = 0) -> int:
        """How many days to make; records go on changing for `changing_days`."""
        if self.newest_days is None:
            return all_days
        return min(all_days, self.newest_days + changing_days)


@dataclass(frozen=True)
class DemoPart:
    """One subject's part of the demo world, and how many records it will report as progress."""

    fill: Callable[[DemoTarget], Awaitable[None]]
    world_records: Callable[[], int] = lambda: 0


async def store_all(
    database: Database, loader: Loader, records: Iterable[object], progress: Progress
) -> None:
    """Stores records chunk by chunk, like any load; records that exist stay the same."""
    stream = iter(records)
    while chunk := list(islice(stream, CHUNK_RECORDS)):
        await store_records(database, loader, chunk)
        progress(len(chunk))


def midnight_s(day: date, zone: ZoneInfo) -> int:
    """When a day begins in a time zone."""
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp())
