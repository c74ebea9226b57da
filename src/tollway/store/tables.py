"""Every table of a database: the files that describe them, brought together."""

from tollway.store import (
    carrier_tables,
    client_tables,
    consent_tables,
    node_tables,
    order_tables,
    promotion_tables,
    schema,
    settlement_tables,
    waybill_tables,
)

__all__ = [
    "ALL_TABLES",
    "carrier_tables",
    "client_tables",
    "consent_tables",
    "node_tables",
    "order_tables",
    "promotion_tables",
    "settlement_tables",
    "waybill_tables",
]

ALL_TABLES = tuple(schema.metadata.sorted_tables)
