"""Waybills of a database of the first schema, which stored fingerprints of their requests."""

from tests.support.gateway import Gateway
from tests.support.ledger import credits_left
from tests.support.stores import Store
from tests.support.waybills import issue, new_carrier, new_customer, request
from tollway.store.migrate import migrate, newest_revision


def test_a_waybill_from_before_the_upgrade_is_repeated_and_compared(own_store: Store) -> None:
    customer, wp_code = new_customer(own_store), new_carrier(own_store, 5)
    body = request(wp_code, goods_name="茶叶", weight_g=500)
    with Gateway(own_store) as before:
        first = issue(before, customer.token, body).data
    for index in ("operator_act_by", "token_made", "person_member", "second_factor_login"):
        own_store.run(f"DROP INDEX {index}")
    own_store.run("ALTER TABLE refused_call DROP COLUMN said")
    own_store.run("ALTER TABLE version DROP COLUMN latest_changes")
    own_store.run("ALTER TABLE account DROP COLUMN suspended_at_s")
    own_store.run("ALTER TABLE waybill ADD COLUMN fingerprints VARCHAR")
    own_store.run("UPDATE waybill SET fingerprints = '{}'")
    own_store.run("UPDATE alembic_version SET version_num = '0001'")
    own_store.run("UPDATE schema_floor SET revision = '0001'")

    assert own_store.do(lambda database: migrate(database, is_alone=True)) == (
        "0001",
        newest_revision(),
    )
    with Gateway(own_store) as after:
        left = credits_left(own_store, customer)
        again = issue(after, customer.token, body)
        assert (again.data["waybillCode"], again.data["withholding_money"]) == (
            first["waybillCode"],
            0,
        )
        for field, value in [("goods_name", "咖啡"), ("weight_g", 600), ("receiver_name", "李四")]:
            other = issue(after, customer.token, {**body, field: value})
            assert (other.code, other.msg.count(field)) == (100, 1)
        assert credits_left(own_store, customer) == left
