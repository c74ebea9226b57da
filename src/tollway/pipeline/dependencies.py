"""What the stages of a call use."""

import msgspec

from tollway.carriers.connectors.remote_carriers import Remotes
from tollway.carriers.vault import Vault
from tollway.consent.links import ConsentLinks
from tollway.ledger.call_timings import CallTimings
from tollway.ledger.caller_cache import CallerCache
from tollway.ledger.refused_calls import RefusedCallLog
from tollway.pipeline.call import Environment
from tollway.settings import Settings
from tollway.store.cache_versions import Versions
from tollway.store.database import Database
from tollway.telemetry.calls import CallRecorder
from tollway.telemetry.metrics import Metrics


class PipelineDependencies(msgspec.Struct, frozen=True):
    """What the stages use."""

    settings: Settings
    metrics: Metrics
    database: Database
    versions: Versions
    callers: CallerCache
    links: ConsentLinks
    vault: Vault
    remotes: Remotes
    live: Environment
    sandbox: Environment
    recorder: CallRecorder
    refused_calls: RefusedCallLog
    timings: CallTimings
