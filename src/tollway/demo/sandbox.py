"""The sandbox: a small demo world of this process's own, which is all that test tokens ever see.

It is filled when the first test call needs it, and continued with the first one of a new day: a
gateway that nobody tests has nothing to wait for.
"""

import asyncio
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

from tollway.carriers.vault import load_vault
from tollway.demo.carriers import fill_carriers
from tollway.demo.filling import fill_claims, fill_figures, fill_materials, fill_orders
from tollway.demo.on_demand import OnDemandDatabase
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

    def __init__(self, zone: ZoneInfo, today: Callable[[], date]) -> None:
        self._zone = zone
        self._today = today
        self._folder = TemporaryDirectory(prefix="tollway-sandbox-")
        # Metrics of its own, which nobody reads: the sandbox must not colour the real ones.
        self._metrics = Metrics()
        self._file = SqliteDatabase(f"{self._folder.name}/sandbox.db", _PATIENCE_S, self._metrics)
        self.vault = load_vault(Path(self._folder.name) / "keys")
        self._is_founded = False
        self._filled_to: date | None = None
        self.database = OnDemandDatabase(self._file, self._is_current, self._fill)

    def settler(self, timeout_s: float) -> Settler:
        """Does what test calls do; there is nothing to pay, so nobody is ever short of it."""
        return Settler(self.database, self._metrics, timeout_s, lambda *_: None)

    async def close(self) -> None:
        await self.database.close()
        self._folder.cleanup()

    def _is_current(self) -> bool:
        return self._filled_to == self._today()

    async def _fill(self) -> None:
        # On a thread: other calls would have to wait while records are made.
        await asyncio.to_thread(asyncio.run, self._continue_to(self._today()))

    async def _continue_to(self, today: date) -> None:
        """Makes the world, or continues it when a new day has come."""
        if not self._is_founded:
            await migrate(self._file)
            await fill_carriers(self._file, numbers=_NUMBERS)
            await add_sandbox_owners(self._file)
            self._is_founded = True
        await fill_figures(self._file, products=_PRODUCTS, days=_DAYS, last=today)
        await fill_claims(
            self._file,
            per_day=_CLAIMS_PER_DAY,
            days=_DAYS,
            last=today - timedelta(days=1),
            zone=self._zone,
        )
        await fill_materials(self._file, per_promotion=_MATERIALS, today=today)
        await fill_orders(
            self._file,
            self.vault.sealer,
            per_year=_ORDERS_PER_YEAR,
            days=_DAYS,
            today=today,
            zone=self._zone,
        )
        self._filled_to = today
