"""Fingerprints, signatures and links hold for as long as keys are derived in the same way."""

import os

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tollway.store.keys import derived

pytestmark = pytest.mark.sqlite


@pytest.mark.parametrize("key_bytes", [16, 32, 100])
def test_a_key_for_a_purpose_is_that_of_hkdf(key_bytes: int) -> None:
    key = os.urandom(key_bytes)
    expected = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"tollway/labels").derive(key)
    assert derived(key, "labels") == expected
