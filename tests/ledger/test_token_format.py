"""A token's shape: what is minted is well formed, and nothing near it is."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollway.ledger import token_format
from tollway.ledger.token_format import SECRET, is_well_formed, mint, token_hash

TOKEN_LENGTH = len("tw_live_") + 38
TOKENS = st.builds(
    lambda kind, seed: mint(kind, random.Random(seed).choice),
    st.sampled_from(["live", "test"]),
    st.integers(),
)


@given(TOKENS)
def test_what_is_minted_is_well_formed(token: str) -> None:
    assert is_well_formed(token)
    assert re.fullmatch(r"tw_(live|test)_[0-9A-Za-z]{38}", token)
    assert len(token) == TOKEN_LENGTH


@given(TOKENS, st.integers(0, TOKEN_LENGTH - 1), st.characters())
def test_any_one_changed_character_is_caught(token: str, position: int, other: str) -> None:
    changed = token[:position] + other + token[position + 1 :]
    assert is_well_formed(changed) == (changed == token)


def test_every_changed_character_of_one_token_is_caught() -> None:
    token = mint("live", random.Random(1).choice)
    alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    for position, character in enumerate(token):
        for other in alphabet.replace(character, ""):
            assert not is_well_formed(token[:position] + other + token[position + 1 :])


def test_control_without_the_checksum_a_changed_token_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token_format, "_checksum", lambda _: "000000")
    with pytest.raises(AssertionError):
        test_every_changed_character_of_one_token_is_caught()


@given(TOKENS, st.integers(0, TOKEN_LENGTH - 2))
def test_two_neighbours_the_wrong_way_round_are_caught(token: str, position: int) -> None:
    one, other = token[position], token[position + 1]
    swapped = token[:position] + other + one + token[position + 2 :]
    assert is_well_formed(swapped) == (swapped == token)


@given(TOKENS)
def test_a_token_of_one_kind_is_none_of_the_other(token: str) -> None:
    kinds = {"tw_live_": "tw_test_", "tw_test_": "tw_live_"}
    assert not is_well_formed(kinds[token[:8]] + token[8:])


@pytest.mark.parametrize("change", [str.upper, str.lower, str.swapcase])
def test_case_matters(change: object) -> None:
    token = mint("live", random.Random(2).choice)
    assert callable(change)
    assert not is_well_formed(change(token))


@given(st.text() | st.text("tw_livetest0A", min_size=TOKEN_LENGTH, max_size=TOKEN_LENGTH))
def test_other_text_is_not_well_formed_and_never_an_error(text: str) -> None:
    assert not is_well_formed(text)


@given(TOKENS)
def test_the_hash_tells_nothing_of_the_token(token: str) -> None:
    assert len(token_hash(token)) == 32
    assert token.encode() not in token_hash(token)


@given(st.integers(), st.integers(0, TOKEN_LENGTH + 1), st.characters())
def test_a_secret_is_recognised_and_passes_for_no_token(
    seed: int, position: int, other: str
) -> None:
    secret = mint(SECRET, random.Random(seed).choice)
    assert secret.startswith("tw_secret_")
    assert is_well_formed(secret, [SECRET])
    assert not is_well_formed(secret)
    changed = secret[:position] + other + secret[position + 1 :]
    assert is_well_formed(changed, [SECRET]) == (changed == secret)
    assert not is_well_formed(mint("live", random.Random(seed).choice), [SECRET])
