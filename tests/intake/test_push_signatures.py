"""The signature of a push, and how long it holds."""

import pytest

from tests.support.ledger import RUNTIME
from tests.support.orders import sealer_of
from tests.support.pushes import EVERYONE, SOURCE
from tests.support.stores import Store
from tollway.intake.sources import add_source, find_source, rotate_secret
from tollway.webhooks.signature import SignatureError, key_of, read_claim, sign, signing_key


def test_the_tolerance_is_300_seconds_either_way() -> None:
    for timestamp in ("1000", "1600"):
        read_claim("id", timestamp, "v1,x", 1300.0)
    for timestamp in ("999", "1601", "-1", "", "１３００", "1300.0"):
        with pytest.raises(SignatureError):
            read_claim("id", timestamp, "v1,x", 1300.0)


def test_the_signature_is_the_one_of_standard_webhooks() -> None:
    # The example of the Standard Webhooks libraries.
    key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    message_id, timestamp, body = (
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        b'{"test": 2432232314}',
    )
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert sign(key, message_id, timestamp, body) == expected
    claimed = read_claim(message_id, timestamp, f"v1,bad {expected}", 1614265330.0)
    assert signing_key(claimed, [b"other", key], body) == key


def test_whatever_source_a_push_names_its_body_is_signed_as_often(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a large body, once more is tens of milliseconds that a guesser can see."""
    sealer, signed = sealer_of(store), []

    def noted(key: bytes, *_: object) -> str:
        signed.append(key)
        return "v1,"

    def times(name: str) -> int:
        known = store.do(lambda database: find_source(database, sealer, name))
        signed.clear()
        with pytest.raises(SignatureError):
            signing_key(read_claim("id", "1000", "v1,x", 1000.0), known.keys, b"")
        return len(signed)

    monkeypatch.setattr("tollway.webhooks.signature.sign", noted)
    store.do(lambda database: add_source(database, sealer, SOURCE, EVERYONE, RUNTIME))
    new, unknown = times(SOURCE), times("unknown")
    store.do(lambda database: rotate_secret(database, sealer, SOURCE, RUNTIME))
    assert new == unknown == times(SOURCE)
