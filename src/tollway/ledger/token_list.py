"""The tokens of an account, page by page: valid ones, then expired ones, then revoked ones."""

import re

from sqlalchemy import BigInteger, Integer, bindparam, case, func, select, tuple_

from tollway.ledger.tokens import NEVER_S, TOKEN_COLUMNS, Token, token_of
from tollway.store.database import Reader
from tollway.store.query import Query
from tollway.store.schema.ledger import token

# In this order; within each, the newest first.
_VALID, _EXPIRED, _REVOKED = range(3)
_has_expired = func.coalesce(token.c.expires_at_s, NEVER_S) <= bindparam("now_s", type_=BigInteger)
_order = (
    case((token.c.revoked_at_s.is_not(None), _REVOKED), (_has_expired, _EXPIRED), else_=_VALID),
    -token.c.issued_at_s,
    token.c.id,
)
_POSITION = re.compile(r"([012])-([0-9]{1,12})-(tok_[0-9a-z]{1,40})")
_PAGE = Query(
    lambda: (
        select(*TOKEN_COLUMNS)
        .where(
            token.c.account_id == bindparam("account_id"),
            token.c.client_id.is_(None),
            tuple_(*_order)
            > tuple_(
                bindparam("rank", type_=Integer),
                bindparam("negated_s", type_=BigInteger),
                bindparam("after"),
            ),
        )
        .order_by(*_order)
        .limit(bindparam("most", type_=Integer))
    )
)


def position_of(listed: Token, now_s: float) -> str:
    """Where a token is in the list of `tokens_page`: the next page begins after it, even if it is
    revoked meanwhile. Tokens only move towards the end, so a reader misses none."""
    ranks = {"valid": _VALID, "expired": _EXPIRED, "revoked": _REVOKED}
    return f"{ranks[listed.state(now_s)]}-{listed.issued_at_s}-{listed.id}"


def position_in(text: str) -> str:
    """The text, if it is such a position; otherwise that of the first page."""
    return text if _POSITION.fullmatch(text) else ""


async def tokens_page(
    reader: Reader, account_id: str, most: int, now_s: float, after: str = ""
) -> list[Token]:
    """The tokens that people made, valid ones first, from after this position."""
    rank, issued_at_s, token_id = -1, 0, ""
    if found := _POSITION.fullmatch(after):
        rank, issued_at_s, token_id = int(found[1]), int(found[2]), found[3]
    rows = await reader.fetch_all(
        _PAGE,
        account_id=account_id,
        most=most,
        now_s=int(now_s),
        rank=rank,
        negated_s=-issued_at_s,
        after=token_id,
    )
    return [token_of(row) for row in rows]
