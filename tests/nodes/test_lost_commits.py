"""What an asynchronous standby lacks when it is promoted, no node knows any more either."""

from datetime import date
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, new_caller
from tests.support.pair import Pair
from tests.support.stores import Store
from tollway.ledger.tokens import issue_token
from tollway.operations.product_analysis.demo import fill_figures

pytestmark = pytest.mark.postgresql

_PATIENCE_S = 30


def test_a_token_that_a_failover_has_lost_ends(
    tmp_path: Path, today: date, question: dict[str, str]
) -> None:
    pair = Pair(is_synchronous=False)
    try:
        store = Store(tmp_path / "tollway.db", pair.url)
        store.do(lambda database: fill_figures(database, products=1, days=1, last=today))
        caller = new_caller(store)
        with Gateway(store, workers=1) as node:

            def code(token: str) -> int:
                return node.get(token=token, query=question).code

            assert code(caller.token) == 0
            with pair.losing_commits():
                lost = store.do(lambda each: issue_token(each, RUNTIME, caller.account_id)).text
                assert code(lost) == 0
            deadline_s = monotonic() + _PATIENCE_S
            while (found := code(lost)) == 202:
                assert monotonic() < deadline_s, node.log()
                sleep(0.05)
            assert (found, code(caller.token)) == (401, 0)
    finally:
        pair.remove()
