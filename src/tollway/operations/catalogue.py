"""All subjects: the built-in ones, and those of installed packages."""

from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points

from sqlalchemy import Table

from tollway.contract.operation import Operation
from tollway.operations import coupon_claims, orders, product_analysis, promotion_material, waybills
from tollway.operations.subject import Subject
from tollway.settings import SettingsError
from tollway.store.schema import carriers, consent, database, intake, ledger, metadata

ENTRY_POINTS = "tollway.operations"

_BUILT_IN = (
    product_analysis.SUBJECT,
    coupon_claims.SUBJECT,
    promotion_material.SUBJECT,
    waybills.SUBJECT,
    orders.SUBJECT,
)


def with_installed(built_in: Iterable[Subject], found: Iterable[EntryPoint]) -> Iterator[Subject]:
    """The built-in subjects and the installed ones, by name; no two may share a name or a path."""
    taken: set[str] = set()
    for subject in built_in:
        taken |= {subject.operation.name, subject.operation.path}
        yield subject
    for entry_point in sorted(found):
        package = entry_point.dist.name if entry_point.dist else entry_point.name
        subject = entry_point.load()
        if not isinstance(subject, Subject):
            raise SettingsError(
                f"The package {package} brings no tollway.operations.subject.Subject as "
                f"{entry_point.value}: correct it or uninstall it."
            )
        names = {subject.operation.name, subject.operation.path}
        if names & taken:
            raise SettingsError(
                f"The package {package} brings {' and '.join(sorted(names & taken))}, which "
                "another operation has already: rename it or uninstall it."
            )
        taken |= names
        yield subject


SUBJECTS: tuple[Subject, ...] = tuple(with_installed(_BUILT_IN, entry_points(group=ENTRY_POINTS)))
OPERATIONS: tuple[Operation, ...] = tuple(each.operation for each in SUBJECTS)
BY_NAME = {operation.name: operation for operation in OPERATIONS}
RECORD_KINDS = {each.records.name: each.records for each in SUBJECTS if each.records is not None}
# Importing a schema file declares its tables; those of the subjects are imported by now.
_COMMON = (carriers, consent, database, intake, ledger)
ALL_TABLES: tuple[Table, ...] = tuple(metadata.sorted_tables)
