"""What a gateway has open while it serves: databases, keys, the way to carriers."""

from tollway.calendar import Calendar
from tollway.carriers.connectors.exchange import open_client
from tollway.carriers.connectors.remotes import Remotes
from tollway.carriers.vault import load_vault
from tollway.demo.sandbox import Sandbox
from tollway.settings import Settings
from tollway.store.key_marks import files_of
from tollway.store.open import open_database, open_reading
from tollway.store.secret import load_secret
from tollway.store.signing import load_signer
from tollway.store.versions import Versions
from tollway.telemetry.metrics import Metrics


class Resources:
    """Opened when a gateway is made, closed when it stops."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.calendar = Calendar(settings.zone)
        self.database = open_database(
            settings.database, metrics, settings.call_timeout_s, settings.database_connections
        )
        self.sandbox = Sandbox(settings.zone, self.calendar.today)
        self.remotes = Remotes(open_client())
        key_file, secret_file = self.files = files_of(settings)
        self.secret = load_secret(secret_file.present())
        self.vault = load_vault(key_file.present())
        self.fingerprinter = load_signer(key_file.path, "request fingerprint")
        self.versions = Versions(self.database)
        # What reading operations read from.
        self.reading = open_reading(settings, self.database, self.versions, metrics)

    async def close(self) -> None:
        await self.remotes.close()
        if self.reading is not self.database:
            await self.reading.close()
        await self.database.close()
        await self.sandbox.close()
