"""The audit of everything but the ledger: each thing that is damaged is named, and nothing else."""

from datetime import date
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.damage import Damaged
from tests.support.all_operations import all_operations_caller, ask, good_request, small_world
from tests.support.engines import Engine
from tests.support.gateway import Gateway
from tests.support.ledger import Caller
from tests.support.orders import OWNER, miscounted, order, put_orders
from tests.support.stores import Store
from tests.support.waybills import request as waybill_request
from tollway.audit.report import CHECKS
from tollway.operations.catalogue import BY_NAME, OPERATIONS
from tollway.operations.product_analysis.demo import fill_figures
from tollway.operations.waybills.demo import WP_CODE

CALLS_OF_EACH = 2


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory, today: date, engine: Engine) -> Store:
    """A database that a gateway has served: calls of all operations, a waybill asked for twice."""
    store = small_world(Store(tmp_path_factory.mktemp("lived_in") / "ledger.db"), today)
    tagged = [
        order("tag", remark="x", remark_tag=3),
        order("both", remark="x", remark_tag=3, remark_tag_name="gift: red"),
        order("name", remark="x", remark_tag_name="gift"),
    ]
    put_orders(store, tagged)
    _call_all(store, all_operations_caller(store), today)
    # A gateway that served a little longer may have added its usage up.
    for table in ("usage", "entry_day", "usage_cursor"):
        store.run(f"DELETE FROM {table}")
    return store


def _call_all(store: Store, caller: Caller, today: date) -> None:
    gateway = Gateway(store)
    try:
        for operation in OPERATIONS:
            for _ in range(CALLS_OF_EACH):
                reply = ask(gateway, operation, caller.token, good_request(operation, today))
                assert reply.code == 0, reply
        same = waybill_request(WP_CODE)
        for _ in range(2):
            assert ask(gateway, BY_NAME["waybills"], caller.token, same).code == 0
    finally:
        assert gateway.stop() == 0


@pytest.fixture
def world(lived_in: Store, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A copy of it for one test, as the database of the commands."""
    copy = lived_in.copied_to(workplace / "ledger.db")
    monkeypatch.setenv("TOLLWAY_DATABASE", copy.url)
    return copy


def test_a_world_that_was_served_comes_out_clean_and_every_check_saw_rows(
    tollway: Command, world: Store
) -> None:
    number = tollway("waybill", "list", "--limit", "1", "--json").json[0]["number"]
    assert tollway("waybill", "cancel", number).status == 0
    answer = tollway("audit", "--json")
    assert (answer.status, answer.json["breaches"]) == (0, [])
    rows = {check["name"]: check["rows"] for check in answer.json["checks"]}
    of_the_file = [] if world.is_shared else ["schema"]
    assert list(rows) == [*(check.name for check in CHECKS), *of_the_file]
    # No token of this world has a cap, no call waits for a remote carrier, and its usage is not
    # added up yet.
    assert [name for name, count in rows.items() if not count] == [
        "caps",
        "holds",
        "holds_in_time",
        "hold_waybills",
        "reserved_keys",
        "usage",
        "usage_calls",
        "entry_days",
    ]
    assert rows["waybill_charges"] == 3 and rows["consent_uses"] == 8


TAKEN = "(SELECT number FROM waybill LIMIT 1)"
FREE = (
    "(SELECT min(number) FROM waybill_number "
    "WHERE is_taken = 0 AND wp_code = (SELECT wp_code FROM waybill LIMIT 1))"
)
NEWEST_DAY = "day = (SELECT max(day) FROM product_day)"
ONE_USE = "request_id = (SELECT min(request_id) FROM consent_use)"
COPIED = "account_id, owner_id, wp_code, state, asked_at_s, issued_at_s, sealed"
COPY_OF_WAYBILL = (
    f"INSERT INTO waybill ({COPIED}, object_id, price, order_sn, number) "
    f"SELECT {COPIED}, 'wb_other', 0, {{sn}}, {{number}} FROM waybill LIMIT 1"
)

# What is done to the file, and every breach that must be reported for it.
SABOTAGE = {
    "an order has two waybills in force": (
        "DROP INDEX waybill_natural_key;"
        + COPY_OF_WAYBILL.format(sn="order_sn", number=FREE)
        + f"; UPDATE waybill_number SET is_taken = 1 WHERE number = {FREE}",
        {"waybill_twice"},
    ),
    "a number is on two waybills": (
        "DROP INDEX waybill_number_once;" + COPY_OF_WAYBILL.format(sn="'other'", number="number"),
        {"number_used_again"},
    ),
    "the number of a waybill is free again": (
        f"UPDATE waybill_number SET is_taken = 0 WHERE number = {TAKEN}",
        {"number_not_taken"},
    ),
    "a number is taken without a waybill": (
        f"UPDATE waybill_number SET is_taken = 1 WHERE number = {FREE}",
        {"number_lost"},
    ),
    "a waybill is deleted": (
        f"DELETE FROM waybill WHERE number = {TAKEN}",
        {"number_lost", "waybills_paid_differs"},
    ),
    "a waybill has another price": (
        f"UPDATE waybill SET price = price + 1 WHERE number = {TAKEN}",
        {"waybill_paid_differs", "waybills_paid_differs"},
    ),
    "a waybill was charged as something else": (
        "UPDATE entry SET operation = 'coupon_claims' "
        "WHERE request_id = (SELECT max(request_id) FROM entry WHERE operation = 'waybills')",
        {"waybill_paid_differs", "waybills_paid_differs"},
    ),
    "two waybills have each other's price": (
        f"UPDATE waybill SET price = price + CASE WHEN number = {TAKEN} THEN 1 ELSE -1 END "
        f"WHERE number IN ({TAKEN}, (SELECT max(number) FROM waybill))",
        {"waybill_paid_differs"},
    ),
    "a charged call is reported as not charged": (
        "INSERT INTO refused_call (account_id, request_id, at_ms, operation, code, reason, "
        "is_test) "
        "SELECT account_id, request_id, at_ms, operation, 100, 'PARAMETER_MISSING', 0 FROM entry "
        "WHERE kind = 'charge' LIMIT 1",
        {"charged_and_not"},
    ),
    "a read is not written down": (
        f"DELETE FROM consent_use WHERE {ONE_USE}",
        {"consent_use_differs"},
    ),
    "a read is of another request": (
        f"UPDATE consent_use SET request_id = 'other' WHERE {ONE_USE}",
        {"consent_use_differs"},
    ),
    "a read is of another operation": (
        f"UPDATE consent_use SET operation = 'coupon_claims' WHERE {ONE_USE}",
        {"consent_use_differs"},
    ),
    "a consent is deleted": (
        "DELETE FROM consent WHERE scope = 'orders'",
        {"consent_missing", "consent_use_differs"},
    ),
    "a consent is of another account": (
        "INSERT INTO account (id, name, opened_at_s) VALUES ('acc_other', 'other', 0);"
        "UPDATE consent SET account_id = 'acc_other' WHERE scope = 'orders'",
        {"consent_of_another", "consent_use_differs"},
    ),
    "a consent is of no account": (
        "INSERT INTO consent SELECT owner_kind, owner_id, 'con_x', 'acc_none', scope, granted_by, "
        "granted_at_s, expires_at_s, revoked_at_s, NULL, NULL FROM consent LIMIT 1",
        {"account_missing"},
    ),
    "a change number is given again": (
        "UPDATE order_change SET change_no = 0 WHERE owner_id = (SELECT min(owner_id) FROM "
        "order_change)",
        {"order_change_number"},
    ),
    "a claim is deleted": (
        "DELETE FROM coupon_claim WHERE coupon_code = (SELECT min(coupon_code) FROM coupon_claim)",
        {"claims_miscounted"},
    ),
    "a claim is moved to an hour that has no count": (
        "DELETE FROM coupon_claim_hour WHERE hour = (SELECT max(hour) FROM coupon_claim_hour)",
        {"claims_miscounted"},
    ),
    "a count of claims is raised": (
        "UPDATE coupon_claim_hour SET claims = claims + 1 "
        "WHERE hour = (SELECT max(hour) FROM coupon_claim_hour)",
        {"claims_miscounted"},
    ),
    "a figure of a product is raised": (
        f"UPDATE product_figure SET visitors = visitors + 1 WHERE {NEWEST_DAY} "
        "AND name = (SELECT max(name) FROM product_figure)",
        {"day_parts_differ"},
    ),
    "a source of a product is deleted": (
        f"DELETE FROM product_figure WHERE {NEWEST_DAY} "
        "AND name = (SELECT min(name) FROM product_figure)",
        {"day_parts_differ"},
    ),
    "the keywords of a product are answered as search terms": (
        f"UPDATE product_day_parts SET searches = keywords WHERE {NEWEST_DAY}",
        {"day_parts_differ"},
    ),
    "the parts of a day are deleted": (
        f"DELETE FROM product_day_parts WHERE {NEWEST_DAY}",
        {"day_parts_missing"},
    ),
    "the figures of a day are deleted": (
        f"DELETE FROM product_figure WHERE {NEWEST_DAY}",
        {"day_parts_left"},
    ),
}


@pytest.mark.postgresql
def test_what_is_there_twice_in_different_months_is_named(tollway: Command, world: Store) -> None:
    later = 40 * 86_400
    for table, key, unit in (("shop_order", "order_sn", 1000), ("coupon_claim", "coupon_code", 1)):
        row = f"r.{key} = (SELECT min({key}) FROM {table})"
        changed = f"jsonb_build_object('newest_first', r.newest_first + {later * unit})"
        world.run(
            f"INSERT INTO {table} SELECT (jsonb_populate_record(r, {changed})).* "
            f"FROM {table} AS r WHERE {row}"
        )
    breaches = {each["name"] for each in tollway("audit", "--json").json["breaches"]}
    assert breaches == {
        *("order_twice", "order_change_number", "code_twice"),
        *("orders_miscounted", "claims_miscounted"),
    }


@pytest.fixture(scope="module")
def damaged(lived_in: Store, tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    copy = lived_in.copied_to(tmp_path_factory.mktemp("damaged") / "ledger.db")
    damages = (sabotage for sabotage, _ in SABOTAGE.values())
    return Damaged(copy, [*damages, *DAMAGES.values(), *CHANGED_ORDERS.values()])


@pytest.mark.parametrize("what", SABOTAGE)
def test_what_is_damaged_is_named(
    tollway: Command, damaged: Damaged, workplace: Path, what: str
) -> None:
    sabotage, breaches = SABOTAGE[what]
    with damaged.before(sabotage, workplace) as world:
        world.run_unchecked(sabotage)
        answer = tollway("audit", "--json")
    assert answer.status == 1
    if "DROP INDEX" in sabotage and not world.is_shared:
        breaches = {*breaches, "schema_changed"}
    assert {breach["name"] for breach in answer.json["breaches"]} == breaches


# One bucket of each facet and width is damaged in each of these ways.
DAMAGES: dict[str, str] = {
    "raised": "UPDATE order_count SET orders = orders + 1 WHERE {bucket}",
    "lowered": "UPDATE order_count SET orders = orders - 1 WHERE {bucket}",
    "deleted": "DELETE FROM order_count WHERE {bucket}",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("hours", [1, 24])
def test_each_facet_of_orders_is_counted_by_hour_and_day(
    tollway: Command, damaged: Damaged, workplace: Path, damage: str, hours: int
) -> None:
    kinds = {"", "t:3", "n:gift", "tn:3:gift: red"}
    with damaged.before(DAMAGES[damage], workplace) as world:
        assert kinds <= {facet for (facet,) in world.run("SELECT DISTINCT facet FROM order_count")}
        for facet in sorted(kinds):
            of_facet = f"owner_id = '{OWNER}' AND facet = '{facet}' AND hours = {hours}"
            newest = f"(SELECT max(bucket) FROM order_count WHERE {of_facet})"
            world.run(DAMAGES[damage].format(bucket=f"{of_facet} AND bucket = {newest}"))
        assert len(world.do(miscounted)) == 4
        breaches = tollway("audit", "--json").json["breaches"]
    assert {breach["name"] for breach in breaches} == {"orders_miscounted"}
    span = "hour" if hours == 1 else "day"
    for facet in kinds:
        wrong = f"facet {facet or 'all'}, {span} "
        assert [wrong in breach["difference"] for breach in breaches].count(True) == 1


CHANGED_ORDERS = {
    "an order is deleted": "DELETE FROM shop_order WHERE order_sn = 'both'",
    "an order has another tag": "UPDATE shop_order SET remark_tag = 4 WHERE order_sn = 'both'",
    "an order has another time": "UPDATE shop_order SET newest_first = newest_first + 3600000 "
    "WHERE order_sn = 'both'",
}


@pytest.mark.parametrize("what", CHANGED_ORDERS)
def test_orders_that_their_counts_do_not_know_are_named(
    tollway: Command, damaged: Damaged, workplace: Path, what: str
) -> None:
    with damaged.before(CHANGED_ORDERS[what], workplace) as world:
        world.run(CHANGED_ORDERS[what])
        breaches = tollway("audit", "--json").json["breaches"]
    assert {breach["name"] for breach in breaches} == {"orders_miscounted"}
    assert len(breaches) >= 2


def test_every_day_of_a_product_is_compared(tollway: Command, world: Store, today: date) -> None:
    """Of more figures than are read at once."""
    world.do(lambda database: fill_figures(database, products=1, days=100, last=today))
    assert tollway("audit").status == 0
    world.run("UPDATE product_day_parts SET sources = keywords")
    breaches = tollway("audit", "--json").json["breaches"]
    days = [day for (day,) in world.run("SELECT day FROM product_day ORDER BY day")]
    assert [int(each["difference"].partition(", day ")[2][:8]) for each in breaches] == days
