"""Nothing that a waybill says of people is in the database's bytes, or in the log."""

import pytest

from tests.support.gateway import Gateway
from tests.support.stores import Store
from tests.support.waybills import issue, new_carrier, new_customer, request
from tollway.carriers.vault import load_vault
from tollway.carriers.waybills import find_by_number
from tollway.store.key_file import SealError
from tollway.store.open import key_path

CANARIES = {
    "sender_name": "金丝雀寄件人",
    "sender_mobile": "15500001111",
    "sender_detail": "金丝雀寄件路一号",
    "receiver_name": "金丝雀收件人",
    "receiver_phone": "15500002222",
    "receiver_address": "金丝雀收件路二号",
}


def test_personal_data_is_sealed_at_rest(own_store: Store) -> None:
    customer, wp_code = new_customer(own_store), new_carrier(own_store, 5)
    gateway = Gateway(own_store, log_calls="all")
    data = issue(gateway, customer.token, request(wp_code, **CANARIES)).data
    issue(gateway, customer.token, request(wp_code, **{**CANARIES, "receiver_name": "x" * 40}))
    while_serving = own_store.content()
    gateway.stop()
    assert all(text in data["printData"] for text in CANARIES.values())
    written = while_serving + own_store.content() + gateway.log().encode()
    # The search itself must be able to find something: the number is not secret.
    assert data["waybillCode"].encode() in written
    for field, text in CANARIES.items():
        assert text.encode() not in written, field
        assert text.encode("unicode_escape") not in written, field


def test_a_seal_does_not_open_for_another_waybill(own_store: Store) -> None:
    customer, wp_code = new_customer(own_store), new_carrier(own_store, 5)
    gateway = Gateway(own_store)
    numbers = [
        issue(gateway, customer.token, request(wp_code)).data["waybillCode"] for _ in range(2)
    ]
    gateway.stop()
    own_store.run(
        "UPDATE waybill SET sealed = "
        f"(SELECT sealed FROM waybill WHERE number = '{numbers[1]}') WHERE number = '{numbers[0]}'"
    )
    vault = load_vault(key_path(own_store.url, own_store.key_file))
    moved = own_store.do(lambda database: find_by_number(database, numbers[0]))
    with pytest.raises(SealError):
        moved.print_data(vault)
