"""A gateway in the process of a test, without a server."""

import asyncio
import sys
from collections.abc import Awaitable, Callable

import pytest

from tests.support.stores import Store
from tollway.cli.setting_sources import load_settings
from tollway.gateway.gateway import Gateway
from tollway.gateway.worker_group import WorkerGroup
from tollway.operations.catalogue import ALL_TABLES
from tollway.store.key_check import files_of, use_files
from tollway.telemetry.logs import LogWriter


def in_gateway(
    store: Store, monkeypatch: pytest.MonkeyPatch, work: Callable[[Gateway], Awaitable[None]]
) -> None:
    for name, value in store.settings.items():
        monkeypatch.setenv(name, value)
    settings, _ = load_settings()
    store.do(lambda database: use_files(database, files_of(settings), ALL_TABLES))

    async def run() -> None:
        gateway = Gateway(settings, WorkerGroup(1, ""), 1, LogWriter(sys.stderr))
        try:
            await work(gateway)
        finally:
            await gateway.stop()

    asyncio.run(run())
