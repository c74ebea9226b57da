"""Reading operations read from a replica that keeps up; everything else is the primary's."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from time import monotonic, sleep
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.support.coupons import NOON_S, claim, load_claims
from tests.support.gateway import Gateway
from tests.support.ledger import Caller, calls_left, new_caller
from tests.support.metrics import all_of, metrics, sample
from tests.support.pair import Pair
from tests.support.postgresql import Server, run_on
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.operations.coupon_claims.export import CLAIMS_EXPORT, CLAIMS_FILE
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.product_analysis.demo import fill_figures
from tollway.operations.product_analysis.records import ProductRecord
from tollway.operations.product_analysis.storage import FigureLoader, row_of
from tollway.store.database import Database, Transaction

pytestmark = pytest.mark.postgresql

DAYS = 400
DEADLINE_S = 30
# More than any process is ever held up, and than any test waits: so it is never for its lag that
# the replica is passed over, but in the one test that is about that.
LONG_LAG_S = 60
SHORT_LAG_S = 1
FOREIGN = "from elsewhere"
# A server writes a statement to its log before it runs it: that of a call that was answered is
# there. Its statistics are counted later, perhaps in the midst of the next call.
LOGGED = {"log_statement": "all", "log_min_messages": "log"}
TABLE = "product_day_parts"


@pytest.fixture(scope="module")
def pair(engine: str) -> Iterator[Pair]:
    made = Pair(is_synchronous=False, **LOGGED)
    yield made
    made.remove()


@pytest.fixture(scope="module")
def replicated(pair: Pair, tmp_path_factory: pytest.TempPathFactory, today: date) -> Store:
    made = Store(tmp_path_factory.mktemp("replicated") / "tollway.db", pair.primary.url)
    made.do(lambda database: fill_figures(database, products=1, days=DAYS, last=today))
    return made


@pytest.fixture(scope="module")
def caller(replicated: Store) -> Caller:
    return new_caller(replicated, calls=100_000, rate_limit=1_000_000)


@pytest.fixture(scope="module")
def gateway(pair: Pair, replicated: Store, caller: Caller) -> Iterator[Gateway]:
    with reading_from(pair, replicated, LONG_LAG_S) as started:
        yield started


@contextmanager
def reading_from(pair: Pair, store: Store, lag_s: int) -> Iterator[Gateway]:
    """A gateway that reads from the standby.

    Over one connection: when one more is made, which two reads at once may need at any time, the
    primary is read from until the standby was asked again."""
    with Gateway(
        store, read_database=pair.standby.url, read_lag_s=lag_s, database_connections=1
    ) as started:
        yield started


class Readings:
    """Calls for one day after the other, so that every call has to read."""

    def __init__(self, gateway: Gateway, caller: Caller, question: dict[str, str]) -> None:
        self._gateway, self._caller, self._question = gateway, caller, question
        self._days = 0

    def call(self, pair: Pair) -> str:
        """Makes a call; tells which server it was read from."""
        before = _reads(pair)
        self.call_anywhere()
        after = _reads(pair)
        assert after != before
        return "primary" if after[0] > before[0] else "replica"

    def call_anywhere(self) -> None:
        self._days += 1
        day = date.fromisoformat(self._question["query_date"]) - timedelta(days=self._days % DAYS)
        wanted = {**self._question, "query_date": day.isoformat()}
        assert self._gateway.get(token=self._caller.token, query=wanted).code == 0

    def until_from(self, server: str, pair: Pair) -> None:
        deadline_s = monotonic() + DEADLINE_S
        while self.call(pair) != server:
            assert monotonic() < deadline_s, server
            sleep(0.02)


def _reads(pair: Pair) -> tuple[int, int]:
    return pair.primary.log().count(TABLE), pair.standby.log().count(TABLE)


@pytest.fixture(scope="module")
def readings(gateway: Gateway, caller: Caller, question: dict[str, str]) -> Readings:
    return Readings(gateway, caller, question)


def test_calls_are_read_from_the_replica_and_paid_on_the_primary(
    pair: Pair, replicated: Store, caller: Caller, readings: Readings
) -> None:
    readings.until_from("replica", pair)
    before = calls_left(replicated, caller)
    assert [readings.call(pair) for _ in range(3)] == ["replica"] * 3
    assert calls_left(replicated, caller) == before - 3


def test_a_replica_that_falls_behind_is_passed_over_until_it_has_caught_up(
    pair: Pair, replicated: Store, caller: Caller, question: dict[str, str]
) -> None:
    with reading_from(pair, replicated, SHORT_LAG_S) as strict:
        readings = Readings(strict, caller, question)
        readings.until_from("replica", pair)
        run_on(pair.standby.url, "SELECT pg_wal_replay_pause()")
        try:
            readings.until_from("primary", pair)
        finally:
            run_on(pair.standby.url, "SELECT pg_wal_replay_resume()")
        readings.until_from("replica", pair)


def test_a_metric_says_whether_the_replica_is_used(
    pair: Pair, gateway: Gateway, readings: Readings
) -> None:
    def is_used() -> float:
        return sample(metrics(gateway), "tollway_replica_used")

    readings.until_from("replica", pair)
    assert is_used() == 1
    connections = all_of(metrics(gateway), "tollway_database_connections")
    assert sum(count for labels, count in connections.items() if 'database="replica"' in labels) > 0
    with pair.standby.held():
        eventually(is_used, lambda found: found == 0)
    eventually(is_used, lambda found: found == 1)


def test_new_figures_are_seen_at_once_although_the_replica_has_not_got_them(
    pair: Pair, replicated: Store, gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    before = gateway.get(token=caller.token, query=question).data
    run_on(pair.standby.url, "SELECT pg_wal_replay_pause()")
    try:
        replicated.do(lambda database: _rename(database, question["product_id"], "新标题"))
        deadline_s = monotonic() + DEADLINE_S
        while gateway.get(token=caller.token, query=question).data["itemName"] != "新标题":
            assert monotonic() < deadline_s
    finally:
        run_on(pair.standby.url, "SELECT pg_wal_replay_resume()")
    assert gateway.get(token=caller.token, query=question).data["itemName"] == "新标题"
    assert before["itemName"] != "新标题"


def test_a_file_of_claims_has_what_was_paid_although_the_replica_has_not_got_it(
    pair: Pair, replicated: Store, gateway: Gateway, readings: Readings
) -> None:
    buyer = new_caller(replicated, operations=[COUPON_CLAIMS], credits_=50)
    readings.until_from("replica", pair)
    run_on(pair.standby.url, "SELECT pg_wal_replay_pause()")
    try:
        load_claims(replicated, [claim(f"c-{n}", NOON_S + n) for n in range(3)])
        window = {"startTime": NOON_S, "endTime": NOON_S + 60, "sid": "s1", "type": 4}
        export = gateway.post_json(CLAIMS_EXPORT.path, window, token=buyer.token).data
        assert export["records"] == 3
        file = gateway.client.get(
            CLAIMS_FILE.path,
            params={"export_id": export["export_id"]},
            headers={"Authorization": f"Bearer {buyer.token}"},
        )
    finally:
        run_on(pair.standby.url, "SELECT pg_wal_replay_resume()")
    assert len(gzip.decompress(file.content).splitlines()) == 3


def test_a_replica_that_goes_away_is_not_missed(
    pair: Pair, readings: Readings, gateway: Gateway
) -> None:
    readings.until_from("replica", pair)
    pair.standby.stop()
    try:
        for _ in range(5):
            readings.call_anywhere()
    finally:
        pair.standby.start()
    readings.until_from("replica", pair)


def test_a_replica_that_is_silent_is_not_waited_for(
    pair: Pair, replicated: Store, caller: Caller, question: dict[str, str]
) -> None:
    url = pair.standby.url
    gateway = Gateway(replicated, read_database=url, read_lag_s=LONG_LAG_S, call_timeout_s=300)
    readings = Readings(gateway, caller, question)
    readings.until_from("replica", pair)
    with pair.standby.held():
        for _ in range(3):
            readings.call_anywhere()
    readings.until_from("replica", pair)
    assert gateway.stop() == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"path": "/other"}, "it is no replica of the primary, but another database"),
        ({"netloc": "me:hush@127.0.0.1:1"}, "127.0.0.1:1: connection refused"),
    ],
    ids=["another database", "away"],
)
def test_what_is_no_replica_is_never_read_from_and_the_log_says_why(
    pair: Pair,
    replicated: Store,
    caller: Caller,
    question: dict[str, str],
    other: Store,
    change: dict[str, str],
    reason: str,
) -> None:
    url = urlunsplit(urlsplit(pair.primary.url)._replace(**change))
    _is_passed_over(replicated, caller, question, url, reason)


def test_a_replica_that_was_promoted_is_never_read_from_again(
    pair: Pair, replicated: Store, caller: Caller, question: dict[str, str]
) -> None:
    """It has the name and the past of the primary, and from then on a life of its own."""
    left = Server(follows=pair.primary)
    try:
        run_on(left.url, "SELECT pg_promote(wait => true)")
        run_on(left.url, f"UPDATE product SET title = '{FOREIGN}'")
        # Further than the primary: by their positions alone it would be level.
        run_on(left.url, "SELECT pg_switch_wal()")
        _is_passed_over(replicated, caller, question, left.url, "any more: it takes writes")
    finally:
        left.remove()


@pytest.fixture(scope="module")
def other(pair: Pair, tmp_path_factory: pytest.TempPathFactory, today: date) -> Store:
    """Another database on the same server, with other content under the same names."""
    run_on(pair.primary.url, "CREATE DATABASE other TEMPLATE template0")
    url = f"{pair.primary.url.rpartition('/')[0]}/other"
    made = Store(tmp_path_factory.mktemp("other") / "tollway.db", url)
    made.do(lambda database: fill_figures(database, products=1, days=DAYS, last=today))
    made.run(f"UPDATE product SET title = '{FOREIGN}'")
    # As many changes as the primary ever has.
    made.run("UPDATE version SET figures = 1000000")
    return made


def _is_passed_over(
    store: Store, caller: Caller, question: dict[str, str], url: str, reason: str
) -> None:
    gateway = Gateway(store, read_database=url, read_lag_s=LONG_LAG_S, database_connections=4)
    deadline_s, days = monotonic() + DEADLINE_S, 0
    while not _times_logged(gateway, reason) or days < 20:
        assert monotonic() < deadline_s, gateway.log()
        days += 1
        day = date.fromisoformat(question["query_date"]) - timedelta(days=days % DAYS)
        wanted = {**question, "query_date": day.isoformat()}
        answer = gateway.get(token=caller.token, query=wanted)
        assert answer.code == 0
        assert answer.data["itemName"] != FOREIGN
    assert gateway.stop() == 0
    assert _times_logged(gateway, reason) == 1
    assert "hush" not in gateway.log()


def _times_logged(gateway: Gateway, reason: str) -> int:
    """How often the log says that for this reason the replica is not used."""
    lines = gateway.log().splitlines()
    return sum("the replica is not read from" in line and reason in line for line in lines)


async def _rename(database: Database, product_id: str, title: str) -> None:
    async def work(transaction: Transaction) -> None:
        record = ProductRecord(product_id=product_id, title=title, shop_name="a shop")
        await FigureLoader().store(transaction, [row_of(record)])

    await database.write(work)
