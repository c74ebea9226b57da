"""The stored links of people and of owners: each works once and expires. Only hashes are stored.

The links of a person sign in; that of an owner lets them choose a new password.
"""

import hashlib

from sqlalchemy import bindparam, or_, select

from tollway.store.database import Reader, Transaction
from tollway.store.query import Query
from tollway.store.schema.identity import sign_in_link

LINK_HOURS = 72

HOLDS = (sign_in_link.c.used_at_s.is_(None), sign_in_link.c.expires_at_s > bindparam("now_s"))
_ADD = Query(
    lambda: sign_in_link.insert().values(
        {name: bindparam(name) for name in ("hash", "person_id", "made_at_s", "expires_at_s")}
    )
)
_FIND = Query(
    lambda: select(sign_in_link.c.hash).where(
        sign_in_link.c.hash == bindparam("wanted"),
        sign_in_link.c.person_id == bindparam("of"),
        *HOLDS,
    )
)
_VOID = Query(
    lambda: sign_in_link.delete().where(
        sign_in_link.c.person_id == bindparam("wanted"), sign_in_link.c.used_at_s.is_(None)
    )
)
_SWEEP = Query(
    lambda: sign_in_link.delete().where(
        or_(
            sign_in_link.c.expires_at_s < bindparam("before_s"),
            sign_in_link.c.used_at_s < bindparam("before_s"),
        )
    )
)


async def add_link(
    transaction: Transaction, holder: str, text: str, now_s: int, expires_at_s: int
) -> None:
    """Stores a link of a person, named by their id, or of an owner, named as in `shop 7001`."""
    await transaction.execute(_SWEEP, before_s=now_s - LINK_HOURS * 3600)
    await transaction.execute(
        _ADD, hash=hash_of(text), person_id=holder, made_at_s=now_s, expires_at_s=expires_at_s
    )


async def void_links(transaction: Transaction, holder: str) -> None:
    """Ends the links that were not used: one that was lost may be in other hands."""
    await transaction.execute(_VOID, wanted=holder)


async def link_holds(reader: Reader, holder: str, text: str, now_s: float) -> bool:
    row = await reader.fetch_one(_FIND, wanted=hash_of(text), of=holder, now_s=int(now_s))
    return row is not None


def hash_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
