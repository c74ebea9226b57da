"""The gateway's secret, and what it signs."""

from pathlib import Path

import msgspec
import pytest

from tollway.consent.grants import GrantRequest
from tollway.consent.links import ConsentLinks, TokenSigner
from tollway.store.database import StoreError
from tollway.store.keys import load_secret


class Note(msgspec.Struct):
    text: str


class LongerNote(msgspec.Struct):
    text: str
    number: int


def test_a_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "tollway.db.secret"
    secret = load_secret(path)
    assert len(secret) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_secret(path) == secret
    assert list(tmp_path.iterdir()) == [path]
    assert load_secret(tmp_path / "other.secret") != secret


@pytest.mark.parametrize("content", [b"", b"abcd", b"not hexadecimal", b"\xff" * 64])
def test_an_invalid_secret_is_reported(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "secret"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="secret file"):
        load_secret(path)
    with pytest.raises(StoreError, match="secret file"):
        load_secret(tmp_path / "none" / "secret")


def test_only_what_was_signed_for_the_same_purpose_is_read() -> None:
    signer, other = TokenSigner(bytes(32), "one"), TokenSigner(bytes(32), "two")
    signed = signer.sign(Note("你好"))
    assert signer.read(signed, Note) == Note("你好")
    assert other.read(signed, Note) is None
    assert signer.read(signed, LongerNote) is None
    for wrong in ("", ".", "é.é", signed + "A", signed[1:], signed.replace(".", "")):
        assert signer.read(wrong, Note) is None


def test_no_character_of_a_link_can_be_changed() -> None:
    links = ConsentLinks(bytes(32), "https://gateway.example", 60)
    grant_request = GrantRequest("acc_1", "user", "42", "promotion")
    link = links.make(grant_request, 1000.5, is_sandbox=False)
    assert link.expires_at_s == 1060
    signed = link.url.partition("link=")[2]
    opened = links.read(signed, 1059)
    assert opened is not None
    assert (opened.grant_request, opened.is_expired) == (grant_request, False)
    expired = links.read(signed, 1060)
    assert expired is not None and expired.is_expired
    # The last character is left out: some of its bits are padding.
    for position in range(len(signed) - 1):
        other = "A" if signed[position] != "A" else "B"
        assert links.read(signed[:position] + other + signed[position + 1 :], 1000) is None
