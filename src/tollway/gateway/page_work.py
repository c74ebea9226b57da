"""Work that pages start and that other packages do: the audit, a copy of the database, and what a
remote carrier must do."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from tollway.audit.report import CHECKS, audit
from tollway.carriers.reconciling import tell_carrier
from tollway.carriers.waybills import Waybill
from tollway.gateway.resources import Resources
from tollway.ledger.runtime import Runtime
from tollway.settings import Settings
from tollway.store.clock import common_ms
from tollway.store.open import is_shared, sqlite_path
from tollway.store.sqlite.database import back_up_file
from tollway.web.area import GatewayWork

_BREACHES_KEPT = 200
_REPORTED_EVERY_S = 1.0


def page_work(settings: Settings, resources: Resources) -> GatewayWork:
    database = resources.database

    async def run_audit(progress: Callable[[int, int], Awaitable[None]]) -> tuple[bool, str]:
        done = 0

        def count(more: int) -> None:
            nonlocal done
            done += more

        now_ms = await common_ms(database, Runtime().at_ms())
        running = asyncio.create_task(audit(database, now_ms, count))
        try:
            while not running.done():
                await asyncio.wait({running}, timeout=_REPORTED_EVERY_S)
                await progress(done, len(CHECKS))
        finally:
            running.cancel()
        report = await running
        shown = msgspec.structs.replace(report, breaches=report.breaches[:_BREACHES_KEPT])
        return not report.breaches, msgspec.json.encode(shown).decode()

    def back_up(destination: Path) -> None:
        back_up_file(sqlite_path(settings.database), str(destination))

    async def cancel(waybill: Waybill) -> None:
        await tell_carrier(database, resources.remotes, resources.vault.sealer, waybill)

    return GatewayWork(run_audit, None if is_shared(settings.database) else back_up, cancel)
