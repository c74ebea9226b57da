"""What a gateway has open while it serves: databases, keys, connections to carriers.

From these it makes the two environments that a call can work on, live data and the sandbox.
"""

from collections.abc import Callable

from tollway.carriers.connectors.remote_carriers import Remotes
from tollway.carriers.pools import TakeNumbers, take_numbers
from tollway.carriers.vault import Vault, load_vault
from tollway.consent.grant_cache import GrantCache
from tollway.demo.sandbox import Sandbox
from tollway.ledger.charging import ChargeBatcher
from tollway.ledger.runtime import Calendar, Runtime
from tollway.operations.catalogue import SUBJECTS
from tollway.operations.subject import Services
from tollway.operations.waybills.demo import sandbox_numbers
from tollway.pipeline.call import AnswerStore, Environment
from tollway.settings import Settings
from tollway.store.cache_versions import Versions
from tollway.store.database import Database
from tollway.store.key_check import files_of
from tollway.store.keys import REQUESTS, load_secret, load_signer
from tollway.store.open import is_shared, open_database, open_reading
from tollway.store.sqlite.files import WriteLock
from tollway.telemetry.gauges import Gauges
from tollway.telemetry.metrics import Metrics


class Resources:
    """Opened when a gateway is made, closed when it stops."""

    def __init__(
        self, settings: Settings, metrics: Metrics, write_lock: WriteLock | None = None
    ) -> None:
        self.calendar = Calendar(settings.zone)
        self.database = open_database(
            settings.database,
            metrics,
            settings.call_timeout_s,
            settings.database_connections,
            write_lock,
        )
        self.remotes = Remotes()
        key_file, secret_file = self.files = files_of(settings)
        self.secret = load_secret(secret_file.present())
        today = self.calendar.today
        self.sandbox = Sandbox(settings.zone, today, self.secret, settings.public_address)
        self.vault = load_vault(key_file.present())
        self.fingerprinter = load_signer(key_file.path, REQUESTS)
        self.versions = Versions(self.database)
        # Whether the database is short of connections at the moment.
        self.is_crowded: Callable[[], bool] = lambda: False
        # Whether its server has just refused a write because its disk is full.
        self.is_full: Callable[[], bool] = lambda: False
        # How far the replica is behind, if there is one.
        self.lag_ms: Callable[[], int | None] = lambda: None
        # What reading operations read from.
        self.reading = open_reading(settings, self.database, self.versions, metrics)
        if is_shared(settings.database):
            self._measure(metrics.gauges)

    def _measure(self, gauges: Gauges) -> None:
        # Imported here, so that the driver is loaded only if there is a server.
        from tollway.store.postgresql.database import PostgresqlDatabase  # noqa: PLC0415
        from tollway.store.postgresql.replica import ReadingDatabase  # noqa: PLC0415

        if isinstance(self.database, PostgresqlDatabase):
            primary = self.database
            gauges.connections["primary"] = primary.connection_use
            self.is_crowded = lambda: primary.is_crowded
            self.is_full = lambda: primary.is_full
        if isinstance(self.reading, ReadingDatabase):
            reading = self.reading
            gauges.connections["replica"] = reading.connection_use
            gauges.replica_used = lambda: reading.is_used
            self.lag_ms = lambda: reading.lag_ms

    async def close(self) -> None:
        await self.remotes.close()
        if self.reading is not self.database:
            await self.reading.close()
        await self.database.close()
        await self.sandbox.close()


def live_environment(
    settings: Settings, resources: Resources, batcher: ChargeBatcher
) -> Environment:
    database, reading = resources.database, resources.reading
    versions, vault = resources.versions, resources.vault
    return _environment(settings, resources, database, reading, versions, vault, batcher)


def sandbox_environment(settings: Settings, resources: Resources) -> Environment:
    database, vault = resources.sandbox.database, resources.sandbox.vault
    batcher = resources.sandbox.batcher(settings.call_timeout_s)
    versions = Versions(database)
    return _environment(
        settings, resources, database, database, versions, vault, batcher, sandbox_numbers
    )


def _environment(
    settings: Settings,
    resources: Resources,
    database: Database,
    reading: Database,
    versions: Versions,
    vault: Vault,
    batcher: ChargeBatcher,
    take_numbers: TakeNumbers = take_numbers,
) -> Environment:
    services = Services(
        database=database,
        reading=reading,
        versions=versions,
        vault=vault,
        remotes=resources.remotes,
        runtime=Runtime(),
        zone=settings.zone,
        today=resources.calendar.today,
        public_address=settings.public_address,
        take_numbers=take_numbers,
    )
    handlers = {each.operation.name: each.make_handler(services) for each in SUBJECTS}
    for subject in SUBJECTS:
        for each in subject.more_calls:
            if each.make_handler is not None:
                handlers[each.operation.name] = each.make_handler(services)
    answers = AnswerStore(database, vault.sealer, resources.fingerprinter)
    return Environment(handlers, GrantCache(database, versions), batcher, answers)
