"""Reads under a grant: each has its grant, and each charge for an owner's data has its read.

Reads are stored by owner and grant, not by account and request. So the request id joins a read to
its charge, and comparing the counts of both reveals a charge without a read.
"""

from collections.abc import Iterator

from sqlalchemy import and_, exists, func, literal, or_, select

from tollway.audit.check import Breach, Check, check_each
from tollway.operations.catalogue import OPERATIONS
from tollway.store.database import Row
from tollway.store.query import alike
from tollway.store.schema.consent import consent, consent_use
from tollway.store.schema.ledger import account, entry

_UNDER_CONSENT = [
    literal(operation.name) for operation in OPERATIONS if operation.consent is not None
]

_its_consent = and_(
    alike(consent, consent_use, "owner_kind", "owner_id"), consent.c.id == consent_use.c.consent_id
)
_its_charge = and_(entry.c.request_id == consent_use.c.request_id, entry.c.kind == "charge")
_of_its_account = entry.c.account_id == consent.c.account_id

# A free read has no charge; the charge of any other read must be on the grant's account.
_wrong_uses = (
    select(consent_use.c.consent_id, consent_use.c.request_id, consent.c.account_id)
    .select_from(consent_use.outerjoin(consent, _its_consent))
    .where(
        or_(
            consent.c.id.is_(None),
            and_(
                exists().where(_its_charge).correlate(consent_use),
                ~exists().where(_its_charge, _of_its_account).correlate(consent_use, consent),
            ),
        )
    )
)

# Counted per account with subqueries: a GROUP BY would sort all rows first.
_charges = (
    select(func.count())
    .where(
        entry.c.account_id == account.c.id,
        entry.c.kind == "charge",
        entry.c.operation.in_(_UNDER_CONSENT),
    )
    .scalar_subquery()
)
_uses = (
    select(func.count())
    .select_from(
        consent.join(consent_use, _its_consent).join(
            entry, and_(_its_charge, _of_its_account, entry.c.operation == consent_use.c.operation)
        )
    )
    .where(
        consent.c.account_id == account.c.id,
        # Without operations of packages that are no longer installed: whether they needed consent
        # is not known any more.
        entry.c.operation.in_(_UNDER_CONSENT),
    )
    .scalar_subquery()
)
_counted = select(
    account.c.id.label("account_id"), _charges.label("charges"), _uses.label("uses")
).subquery("counted")
_unequal = select(_counted).where(_counted.c.charges != _counted.c.uses)


def _describe_use(row: Row) -> Iterator[Breach]:
    consent_id, request_id, account_id = row
    if account_id is None:
        difference = f"request {request_id} was made under consent {consent_id}, which is missing"
        yield Breach("consent_missing", None, None, difference)
    else:
        difference = (
            f"request {request_id} was made under its consent {consent_id} "
            "but charged to another account"
        )
        yield Breach("consent_of_another", account_id, None, difference)


CONSENT_USES = Check(
    "consent_uses",
    "what was done under a consent was so under one of the account charged",
    consent_use,
    _wrong_uses,
    _describe_use,
)
CONSENT_CHARGES = check_each(
    "consent_charges",
    "every charge for an owner's data was under a consent",
    consent_use,
    _unequal,
    "consent_use_differs",
    "{charges} calls that need a consent were charged, but {uses} of these are recorded under one",
)
