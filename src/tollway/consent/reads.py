"""What was read under a grant. The rows are written by the settlement, with the call's charge."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import bindparam, select

from tollway.consent.grants import Grant
from tollway.store.database import Reader
from tollway.store.query import Query
from tollway.store.schema.consent import consent_use

# After every request id, which is made of hexadecimal digits.
_AFTER_ALL = "~"


class Read(msgspec.Struct, frozen=True):
    """One successful call under a grant."""

    request_id: str
    at_ms: int
    operation: str


_NEWEST = Query(
    select(*(consent_use.c[name] for name in Read.__struct_fields__))
    .where(
        consent_use.c.owner_kind == bindparam("kind"),
        consent_use.c.owner_id == bindparam("owner"),
        consent_use.c.consent_id == bindparam("grant"),
        consent_use.c.request_id < bindparam("before"),
    )
    .order_by(consent_use.c.request_id.desc())
    .limit(bindparam("count"))
)


async def newest_reads(
    reader: Reader, grant: Grant, count: int, before: str = _AFTER_ALL
) -> Sequence[Read]:
    """Reads from the newest back, those before a request only."""
    rows = await reader.fetch_all(
        _NEWEST,
        kind=grant.owner_kind,
        owner=grant.owner_id,
        grant=grant.id,
        before=before or _AFTER_ALL,
        count=count,
    )
    return [Read(*row) for row in rows]
