"""A page of a list costs no more with every row that it does not show: counted in work that the
machine's mood does not change."""

from collections.abc import Awaitable, Callable

import apsw
import pytest

from tests.support.stores import Store
from tests.support.work import work_of
from tollway.consent.grants import grants_of_account_page
from tollway.consent.owners import owners_page
from tollway.identity.people import list_members, operators_page
from tollway.identity.second_factor import factors_of_login, factors_page
from tollway.ledger.account_list import AccountFilter, accounts_page
from tollway.ledger.token_list import tokens_page
from tollway.ledger.trail import newest_acts
from tollway.store.database import Database
from tollway.store.sqlite.database import SqliteDatabase

FEW, MANY = 500, 5000
RATIO_MAX = 1.5
PAGE = 51
# As in the first, of which there are as many.
SHOWN = 60

# Statements that add the rows from one number up to another.
_ROWS = "WITH RECURSIVE n (i) AS (SELECT {} UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT "
OPERATORS = (
    "INSERT INTO person (id, kind, role, name, login, added_at_s) "
    f"{_ROWS}'per_' || i, 'operator', 'operator', 'Mei', 'mei' || i, 1 FROM n"
)
# Most of them removed long ago.
MEMBERS = (
    "INSERT INTO person (id, kind, account_id, role, name, login, added_at_s, removed_at_s) "
    f"{_ROWS}'per_' || i, 'member', 'acc_1', 'reader', 'Mei', 'mei' || i, 1, "
    f"CASE WHEN i > {SHOWN} THEN 1 END FROM n"
)
FACTORS = (
    "INSERT INTO second_factor (kind, subject_id, login, sealed_secret, confirmed_at_s, last_step) "
    f"{_ROWS}'operator', 'per_' || i, 'mei' || i, {{hash}}, 1, 0 FROM n"
)
# Most of them obtained by a client, and so in no list.
TOKENS = (
    "INSERT INTO token (hash, id, account_id, kind, label, start, issued_at_s, client_id) "
    f"{_ROWS}{{hash}}, 'tok_' || i, 'acc_1', 'live', '', '', 1, "
    f"CASE WHEN i > {SHOWN} THEN 'cli_1' END FROM n"
)
# Few by the one who is asked for, and not the newest.
ACTS = (
    "INSERT INTO operator_act (number, at_ms, by, act, subject, hash) "
    f"{_ROWS}i, 1, CASE WHEN i > {SHOWN} THEN 'operator li' ELSE 'operator mei' END, "
    f"'token issue', CASE WHEN i > {SHOWN} THEN 'account acc_2' ELSE 'account acc_1' END, "
    "{hash} FROM n"
)
# Of one account, each by another shop.
CONSENTS = (
    "INSERT INTO consent (owner_kind, owner_id, id, account_id, scope, granted_by, granted_at_s) "
    f"{_ROWS}'shop', '88' || i, 'con_' || i, 'acc_1', 'orders', 'owner', i FROM n"
)


async def _consents(database: Database, shop: str) -> object:
    return await grants_of_account_page(database, "acc_1", shop, None, PAGE)


LISTS: dict[str, tuple[str, Callable[[Database], Awaitable[object]]]] = {
    "operators": (OPERATORS, lambda database: operators_page(database, "", PAGE)),
    "members": (MEMBERS, lambda database: list_members(database, "acc_1")),
    "factors": (FACTORS, lambda database: factors_page(database, ("", ""), PAGE)),
    "one factor": (FACTORS, lambda database: factors_of_login(database, "mei7")),
    "tokens": (TOKENS, lambda database: tokens_page(database, "acc_1", PAGE, 0)),
    "consents": (CONSENTS, lambda database: _consents(database, "")),
    "consents of a shop": (CONSENTS, lambda database: _consents(database, "887")),
    "acts by one": (ACTS, lambda database: newest_acts(database, PAGE, of="operator mei")),
    "acts on one": (ACTS, lambda database: newest_acts(database, PAGE, of="account acc_1")),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_page_costs_no_more_with_every_row(own_store: Store, name: str) -> None:
    statement, read = LISTS[name]
    hashed = "decode(md5(i::text), 'hex')" if own_store.is_shared else "CAST(i AS BLOB)"

    def cost_with(first: int, last: int) -> int:
        # A server analyzes by itself, an embedded database never.
        analyzed = ["ANALYZE"] if own_store.is_shared else []
        own_store.run_all(statement.format(first, last, hash=hashed), *analyzed)
        return own_store.do(lambda database: work_of(database, lambda: read(database)))

    own_store.run("INSERT INTO account (id, name, opened_at_s) VALUES ('acc_1', 'Acme', 1)")
    few = cost_with(1, FEW)
    assert cost_with(FEW + 1, MANY) <= RATIO_MAX * few


READ_WHOLE: dict[str, Callable[[Database], Awaitable[object]]] = {
    "accounts by a part of the name": lambda database: accounts_page(
        database, AccountFilter("acme"), "", PAGE
    ),
    "closed accounts": lambda database: accounts_page(
        database, AccountFilter(state="closed"), "", PAGE
    ),
    "newest accounts": lambda database: accounts_page(
        database, AccountFilter(order="newest"), "", PAGE
    ),
    "poorest accounts": lambda database: accounts_page(
        database, AccountFilter(order="credits"), "", PAGE
    ),
    "shops by a part of the name": lambda database: owners_page(database, "acme", ("", ""), PAGE),
}


@pytest.mark.sqlite  # A server reads by itself.
@pytest.mark.parametrize("name", READ_WHOLE)
def test_what_may_read_every_row_does_not_do_so_on_the_event_loop(
    own_store: Store, name: str
) -> None:
    async def work(database: Database) -> list[str]:
        asked: list[str] = []
        assert isinstance(database, SqliteDatabase)
        database._reader.raw.trace_v2(
            apsw.SQLITE_TRACE_STMT, lambda event: asked.append(event["sql"])
        )
        await READ_WHOLE[name](database)
        return asked

    assert own_store.do(work) == []
