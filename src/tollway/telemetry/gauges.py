"""The state at this moment, as gauges; a gauge is left out until its value is known.

Only the first worker of a gateway sets the gauges of the whole database: if every worker did, their
sum would be wrong. Each of several gateways on one database sets them, so take the maximum.
"""

import platform
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import tollway
from tollway.telemetry.families import Family, labelled, single


class ConnectionUse(Protocol):
    """How the connections to one database server are used."""

    @property
    def in_use(self) -> int: ...
    @property
    def idle(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def refused(self) -> int: ...


class DatabaseGauges:
    """What is the same for every worker of every gateway on one database."""

    def __init__(self) -> None:
        self.waybills_pending: int | None = None
        self.waybills_overdue: int | None = None
        self.numbers_left: Mapping[str, int] = {}
        self.oldest_kept_answer_s: float | None = None
        # 0 if there was none, so that an alert fires. None on PostgreSQL, which has its own tools.
        self.backup_at_s: int | None = None
        self.audit_at_s: int | None = None
        self.audit_passed: bool | None = None

    def collect(self) -> Iterator[Family]:
        yield _gauge(
            "tollway_waybills_pending",
            "Waybills that wait for their carrier's answer.",
            self.waybills_pending,
        )
        yield _gauge(
            "tollway_waybills_overdue",
            "Those of them that should have been settled by now: look at the carrier.",
            self.waybills_overdue,
        )
        yield _by_label(
            "tollway_waybill_numbers_left",
            "Numbers left in the pool of a carrier that all shops share, counted up to a limit.",
            "wp_code",
            self.numbers_left,
        )
        yield _gauge(
            "tollway_kept_answers_oldest_seconds",
            "Age of the oldest answer kept for an Idempotency-Key; swept after 24 hours.",
            self.oldest_kept_answer_s,
        )
        yield _gauge(
            "tollway_backup_timestamp_seconds",
            "When the last backup of the file was made; 0 if there was none.",
            self.backup_at_s,
        )
        yield _gauge(
            "tollway_audit_timestamp_seconds",
            "When the last audit ended; 0 if there was none.",
            self.audit_at_s,
        )
        yield _gauge(
            "tollway_audit_passed",
            "1 if the last audit found nothing wrong, 0 if it did.",
            self.audit_passed,
        )


class Gauges:
    """The gauges of one process."""

    def __init__(self) -> None:
        self.schema = ""
        # By reason: whether it makes the gateway unready.
        self.unready: Callable[[], Mapping[str, bool]] = dict
        # By the name of the database: primary, and replica if there is one.
        self.connections: dict[str, Callable[[], ConnectionUse]] = {}
        self.replica_used: Callable[[], bool] | None = None
        self.carriers_shut: dict[str, bool] = {}
        self.clock_offset_s: float | None = None
        # By step: when it last succeeded; the time of the start if it has failed ever since.
        self.upkeep_succeeded_s: dict[str, float] = {}
        # By kind: whether the last run of retention left rows for the next one.
        self.retention_unfinished: dict[str, bool] = {}
        self.database = DatabaseGauges()

    def collect(self) -> Iterator[Family]:
        yield labelled(
            "gauge",
            "tollway_build_info",
            "Always 1: the version of the gateway and of its schema.",
            ("version", "schema", "python"),
            [((tollway.__version__, self.schema, platform.python_version()), 1)],
        )
        yield _by_label(
            "tollway_unready",
            "1 for the reason for which /readyz answers 503, as far as that is known.",
            "reason",
            self.unready(),
        )
        yield from self._of_connections()
        yield _gauge(
            "tollway_replica_used",
            "1 while reading operations read from the replica, 0 while they read the primary.",
            None if self.replica_used is None else self.replica_used(),
        )
        yield _by_label(
            "tollway_carrier_shut",
            "1 while nothing is sent to a carrier, because it does not answer or refuses the link.",
            "wp_code",
            self.carriers_shut,
        )
        yield _gauge(
            "tollway_clock_offset_seconds",
            "This machine's clock minus the database's.",
            self.clock_offset_s,
        )
        yield _by_label(
            "tollway_upkeep_success_timestamp_seconds",
            "When a step of the regular work last succeeded.",
            "step",
            self.upkeep_succeeded_s,
        )
        yield _by_label(
            "tollway_retention_unfinished",
            "1 while the last run of retention left rows for the next one.",
            "kind",
            self.retention_unfinished,
        )
        yield from self.database.collect()

    def _of_connections(self) -> Iterator[Family]:
        uses = {name: use_of() for name, use_of in self.connections.items()}
        yield labelled(
            "gauge",
            "tollway_database_connections",
            "Connections to PostgreSQL, by state.",
            ("database", "state"),
            [
                ((name, state), number)
                for name, use in uses.items()
                for state, number in (("in_use", use.in_use), ("idle", use.idle))
            ],
        )
        yield _by_label(
            "tollway_database_connections_waiting",
            "Reads and writes that wait for a connection.",
            "database",
            {name: use.waiting for name, use in uses.items()},
        )
        yield labelled(
            "counter",
            "tollway_database_connections_refused_total",
            "Connections that PostgreSQL refused because it had too many.",
            ("database",),
            [((name,), use.refused) for name, use in uses.items()],
        )


def _gauge(name: str, meaning: str, value: float | None) -> Family:
    return single("gauge", name, meaning, value)


def _by_label(name: str, meaning: str, label: str, values: Mapping[str, float]) -> Family:
    return labelled("gauge", name, meaning, (label,), [((key,), values[key]) for key in values])
