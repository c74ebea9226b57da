"""The signature of a push, and how long it holds."""

import pytest

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
