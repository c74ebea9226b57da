"""The list of accounts, page by page: filtered, and in the order that the reader chose."""

from typing import NamedTuple

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    String,
    and_,
    bindparam,
    case,
    func,
    or_,
    select,
)

from tollway.ledger.accounts import Account
from tollway.store.database import Database
from tollway.store.query import Query, contains_pattern
from tollway.store.schema.ledger import account, balance

STATES = ("open", "suspended", "closed")
BY_NAME, NEWEST, FEWEST_CREDITS = "", "newest", "credits"
_NUMBER_MAX = 2**62


class AccountFilter(NamedTuple):
    """Which accounts are wanted: those with this id, or whose name contains the text; open,
    suspended or closed ones, or all."""

    text: str = ""
    state: str = ""
    order: str = BY_NAME


class ListedAccount(msgspec.Struct, frozen=True):
    """An account with its credits; None if it never had any."""

    account: Account
    credits: int | None

    def position(self, order: str) -> str:
        """Where the next page begins, if this account is the last of its page."""
        if order == NEWEST:
            return f"{self.account.opened_at_s}:{self.account.id}"
        if order == FEWEST_CREDITS:
            return f"{self.credits or 0}:{self.account.id}"
        return self.account.name


def position_in(order: str, text: str) -> str:
    """The text, if it is a position in this order; otherwise that of the first page."""
    number = text.partition(":")[0]
    is_number = number.isascii() and number.isdecimal() and len(number) < 20
    is_number = is_number and int(number) <= _NUMBER_MAX
    return text if is_number or order not in (NEWEST, FEWEST_CREDITS) else ""


_number = bindparam("after_number", type_=BigInteger)
_text = bindparam("after_text", type_=String)
_credits = func.coalesce(balance.c.amount, 0)


def _page(order: tuple[ColumnElement[object], ...], is_after: ColumnElement[bool]) -> Query:
    state = case(
        (account.c.closed_at_s.is_not(None), "closed"),
        (account.c.suspended_at_s.is_not(None), "suspended"),
        else_="open",
    )
    asked = bindparam("state", type_=String)
    has_state = or_(asked == "", state == asked)
    is_named = or_(
        func.lower(account.c.name).like(bindparam("pattern"), escape="\\"),
        account.c.id == bindparam("wanted"),
    )
    of_credits = and_(balance.c.account_id == account.c.id, balance.c.unit == "credits")
    return Query(
        select(
            *(account.c[name] for name in Account.__struct_fields__),
            balance.c.amount,
        )
        .select_from(account.outerjoin(balance, of_credits))
        .where(is_named, has_state, is_after)
        .order_by(*order)
        .limit(bindparam("most", type_=Integer))
    )


_PAGES = {
    BY_NAME: _page((account.c.name,), account.c.name > _text),
    NEWEST: _page(
        (account.c.opened_at_s.desc(), account.c.id),
        or_(
            account.c.opened_at_s < _number,
            and_(account.c.opened_at_s == _number, account.c.id > _text),
        ),
    ),
    FEWEST_CREDITS: _page(
        (_credits, account.c.id),
        or_(_credits > _number, and_(_credits == _number, account.c.id > _text)),
    ),
}


async def accounts_page(
    database: Database, wanted: AccountFilter, after: str, most: int
) -> list[ListedAccount]:
    """The first accounts, or those after a position."""
    order = wanted.order if wanted.order in _PAGES else BY_NAME
    values: dict[str, str | int] = {"after_text": after}
    if order != BY_NAME:
        number, _, account_id = position_in(order, after).partition(":")
        first = _NUMBER_MAX if order == NEWEST else -1
        values = {"after_number": int(number or first), "after_text": account_id}
    values |= {
        "pattern": contains_pattern(wanted.text),
        "wanted": wanted.text,
        "state": wanted.state if wanted.state in STATES else "",
        "most": most,
    }
    # All but the plain list may read every account.
    if order != BY_NAME or wanted.text or values["state"]:
        rows = await database.fetch_long(_PAGES[order], "accounts", **values)
    else:
        rows = await database.fetch_all(_PAGES[order], **values)
    return [ListedAccount(Account(*row[:-1]), row[-1]) for row in rows]
