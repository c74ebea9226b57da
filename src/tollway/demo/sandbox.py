"""The sandbox: a small demo world of this process's own, which is all that test tokens ever see."""

from datetime import date
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

from tollway.demo.filling import fill_figures, fill_orders
from tollway.store.migrate import migrate
from tollway.store.open import open_database, open_sealer
from tollway.store.sqlite.database import SqliteDatabase
from tollway.telemetry.metrics import Metrics

_PRODUCTS = 3
_DAYS = 60
_ORDERS_PER_YEAR = 3000


class Sandbox:
    """A throw-away database with demo data up to today."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self._folder = TemporaryDirectory(prefix="tollway-sandbox-")
        # Metrics of its own, which nobody reads: the sandbox must not colour the real ones.
        url = f"sqlite:///{self._folder.name}/sandbox.db"
        self.database: SqliteDatabase = open_database(url, Metrics())
        self.sealer = open_sealer(url, "")
        self._filled_to: date | None = None

    async def fill(self, today: date) -> None:
        """Makes the world, or continues it when a new day has come."""
        if self._filled_to is None:
            await migrate(self.database)
        if self._filled_to != today:
            await fill_figures(self.database, products=_PRODUCTS, days=_DAYS, last=today)
            await fill_orders(
                self.database,
                self.sealer,
                per_year=_ORDERS_PER_YEAR,
                days=_DAYS,
                today=today,
                zone=self._zone,
            )
            self._filled_to = today

    async def close(self) -> None:
        await self.database.close()
        self._folder.cleanup()
