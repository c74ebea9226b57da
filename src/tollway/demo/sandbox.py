"""The sandbox: a small demo world of this process's own, which is all that test tokens ever see."""

from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

from tollway.carriers.vault import load_vault
from tollway.demo.carriers import fill_carriers
from tollway.demo.filling import fill_claims, fill_figures, fill_materials, fill_orders
from tollway.demo.owners import add_sandbox_owners
from tollway.ledger.settlement import Settler
from tollway.store.migrate import migrate
from tollway.store.sqlite.database import SqliteDatabase
from tollway.telemetry.metrics import Metrics

_PATIENCE_S = 10.0
_PRODUCTS = 3
_DAYS = 60
_CLAIMS_PER_DAY = 50
_MATERIALS = 3
_NUMBERS = 1000
_ORDERS_PER_YEAR = 3000


class Sandbox:
    """A throw-away database with demo data up to today."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self._folder = TemporaryDirectory(prefix="tollway-sandbox-")
        # Metrics of its own, which nobody reads: the sandbox must not colour the real ones.
        self._metrics = Metrics()
        self.database = SqliteDatabase(
            f"{self._folder.name}/sandbox.db", _PATIENCE_S, self._metrics
        )
        self.vault = load_vault(Path(self._folder.name) / "keys")
        self._filled_to: date | None = None

    async def fill(self, today: date) -> None:
        """Makes the world, or continues it when a new day has come."""
        if self._filled_to is None:
            await migrate(self.database)
            await add_sandbox_owners(self.database)
            await fill_carriers(self.database, numbers=_NUMBERS)
        if self._filled_to != today:
            await fill_figures(self.database, products=_PRODUCTS, days=_DAYS, last=today)
            await fill_claims(
                self.database,
                per_day=_CLAIMS_PER_DAY,
                days=_DAYS,
                last=today - timedelta(days=1),
                zone=self._zone,
            )
            await fill_materials(self.database, per_promotion=_MATERIALS, today=today)
            await fill_orders(
                self.database,
                self.vault.sealer,
                per_year=_ORDERS_PER_YEAR,
                days=_DAYS,
                today=today,
                zone=self._zone,
            )
            self._filled_to = today

    def settler(self, timeout_s: float) -> Settler:
        """Does what test calls do; there is nothing to pay, so nobody is ever short of it."""
        return Settler(self.database, self._metrics, timeout_s, lambda *_: None)

    async def close(self) -> None:
        await self.database.close()
        self._folder.cleanup()
