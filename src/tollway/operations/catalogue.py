"""All subjects: the built-in ones, and those of installed packages."""

from importlib.metadata import entry_points

from sqlalchemy import Table

from tollway.contract.language import Phrase
from tollway.contract.operation import Operation
from tollway.operations import coupon_claims, orders, product_analysis, promotion_material, waybills
from tollway.operations.installed import ENTRY_POINTS, with_installed
from tollway.operations.subject import Subject
from tollway.store.schema import (
    carriers,
    consent,
    database,
    identity,
    intake,
    ledger,
    metadata,
    webhooks,
)

_BUILT_IN = (
    product_analysis.SUBJECT,
    coupon_claims.SUBJECT,
    promotion_material.SUBJECT,
    waybills.SUBJECT,
    orders.SUBJECT,
)

SUBJECTS: tuple[Subject, ...] = tuple(with_installed(_BUILT_IN, entry_points(group=ENTRY_POINTS)))
OPERATIONS: tuple[Operation, ...] = tuple(each.operation for each in SUBJECTS)
MORE_CALLS: tuple[Operation, ...] = tuple(
    more.operation for each in SUBJECTS for more in each.more_calls
)
# Everything that is paid for.
ALL_OPERATIONS = (*OPERATIONS, *MORE_CALLS)
BY_NAME = {operation.name: operation for operation in OPERATIONS}
RECORD_KINDS = {each.records.name: each.records for each in SUBJECTS if each.records is not None}
# Importing a schema file declares its tables; the subjects have imported theirs by now.
_COMMON = (carriers, consent, database, identity, intake, ledger, webhooks)
ALL_TABLES: tuple[Table, ...] = tuple(metadata.sorted_tables)


def title_of(name: str) -> str | Phrase:
    """The title of an operation; its name, if its package is not installed any more."""
    operation = BY_NAME.get(name)
    return name if operation is None else operation.title
