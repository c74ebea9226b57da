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
    "SEALED_TABLES",
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
# What has anything in it that can only be read with the keys.
SEALED_TABLES = tuple(
    table for table in ALL_TABLES if any(column.name.startswith("sealed") for column in table.c)
)
