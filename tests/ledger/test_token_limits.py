"""What a token is limited to: as it is asked for, stored and read by people."""

import re
from collections.abc import Callable, Sequence

import pytest

from tollway.ledger import LedgerError
from tollway.ledger.accounts import open_account
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_limits import (
    NO_LIMITS,
    TokenLimits,
    limits_of,
    read_limits,
    stored_limits,
)
from tollway.ledger.tokens import issue_token, list_tokens
from tollway.store.database import Database

KNOWN = ("orders", "waybills")
ALL = TokenLimits(["account", "orders"], ["127.0.0.1/32", "10.0.0.0/8"], 5, 7)


def read(
    operations: Sequence[str] = (),
    addresses: Sequence[str] = (),
    credits_per_day: int | None = None,
    calls_per_day: int | None = None,
) -> TokenLimits:
    return read_limits(operations, addresses, credits_per_day, calls_per_day, known=KNOWN)


def test_limits_are_read_as_they_are_asked_for() -> None:
    asked = read([" orders ", "", "account", "orders"], [" 127.0.0.1", "", "10.0.0.0/8"], 5, 7)
    assert asked == ALL
    assert read([" "], [" "]) == NO_LIMITS
    # A token that may spend nothing is limited too.
    assert read(credits_per_day=0, calls_per_day=0) == TokenLimits(None, None, 0, 0)


@pytest.mark.parametrize("name", ["order", "orders,waybills"])
def test_an_operation_that_does_not_exist_is_refused_and_the_others_are_named(name: str) -> None:
    with pytest.raises(LedgerError) as refused:
        read(["orders", name])
    assert str(refused.value) == (
        f"There is no operation '{name}': a token can be for orders, waybills, account."
    )


@pytest.mark.parametrize("address", ["300.1.2.3", "here", "10.0.0.0/40", "1.2.3.4/", "::1/200"])
def test_what_is_no_address_is_refused_with_an_example_of_one(address: str) -> None:
    with pytest.raises(LedgerError, match=r"^Addresses are like 203\.0\.113\.7 or .*") as refused:
        read(addresses=["10.0.0.0/8", address])
    assert address in str(refused.value)
    # Nothing of it is in the words of a library.
    chinese = refused.value.sentence.said("zh")
    assert set(re.findall("[a-z]+", chinese.replace(address, ""))) == set()


def test_an_address_with_the_length_of_its_network_is_answered_with_the_network() -> None:
    with pytest.raises(LedgerError, match=r"The network of 10\.0\.0\.1/8 is 10\.0\.0\.0/8"):
        read(addresses=["10.0.0.1/8"])


@pytest.mark.parametrize("caps", [(-1, None), (None, -1), (-1, 5), (5, -1)])
def test_a_cap_below_nothing_is_refused(caps: tuple[int | None, int | None]) -> None:
    with pytest.raises(LedgerError, match="whole number, 0 or more"):
        read((), (), *caps)


def test_a_token_can_have_fifty_addresses_and_no_more() -> None:
    addresses = [f"203.0.113.{nth}" for nth in range(51)]
    assert read(addresses=addresses[:50]).networks == [f"{each}/32" for each in addresses[:50]]
    # Counted before they are read: a form may have thousands.
    for too_many in (addresses, ["", *["nowhere"] * 51]):
        with pytest.raises(LedgerError, match="at most 50 addresses"):
            read(addresses=too_many)


def test_a_token_is_for_the_operations_that_it_names_or_for_all() -> None:
    limits = TokenLimits(operations=["account", "orders"])
    assert [limits.allows(name) for name in ("orders", "account", "waybills")] == [
        *(True, True),
        False,
    ]
    assert NO_LIMITS.allows("waybills") is True


def test_a_token_works_from_the_networks_that_it_names_or_from_everywhere() -> None:
    limits = TokenLimits(networks=["203.0.113.7/32", "10.0.0.0/8"])
    from_where = ("203.0.113.7", "10.1.2.3", "203.0.113.8", "unknown")
    assert [limits.allows_address(each) for each in from_where] == [True, True, False, False]
    assert NO_LIMITS.allows_address("unknown") is True


@pytest.mark.parametrize(
    ("limits", "is_capped"),
    [
        (NO_LIMITS, False),
        (TokenLimits(["orders"], ["10.0.0.0/8"]), False),
        (TokenLimits(credits_per_day=0), True),
        (TokenLimits(calls_per_day=0), True),
        (TokenLimits(credits_per_day=1, calls_per_day=1), True),
    ],
)
def test_a_token_with_either_cap_is_capped(limits: TokenLimits, is_capped: bool) -> None:
    assert limits.is_capped is is_capped


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (NO_LIMITS, ""),
        (
            ALL,
            "account, orders; from 127.0.0.1/32, 10.0.0.0/8; 5 credits a day; 7 calls a day",
        ),
        (TokenLimits(operations=["orders"], credits_per_day=0), "orders; 0 credits a day"),
        (TokenLimits(credits_per_day=1, calls_per_day=1), "1 credit a day; 1 call a day"),
        (TokenLimits(networks=["10.0.0.0/8"], calls_per_day=0), "from 10.0.0.0/8; 0 calls a day"),
    ],
)
def test_people_read_what_a_token_is_limited_to_and_nothing_else(
    limits: TokenLimits, words: str
) -> None:
    assert limits.in_words() == words


@pytest.mark.parametrize(
    "limits",
    [NO_LIMITS, ALL, TokenLimits(operations=["orders"]), TokenLimits(networks=["10.0.0.0/8"])],
)
async def test_a_token_has_the_limits_that_it_was_issued_with(
    database: Database, new_name: Callable[[], str], limits: TokenLimits
) -> None:
    account = await open_account(database, Runtime(), new_name())
    await issue_token(database, Runtime(), account.id, limits=limits)
    (listed,) = await list_tokens(database, account.id)
    assert listed.limits == limits


def test_the_lists_of_limits_are_stored_as_texts_with_commas() -> None:
    stored = {
        "operations": "account,orders",
        "networks": "127.0.0.1/32,10.0.0.0/8",
        "credits_per_day": 5,
        "calls_per_day": 7,
    }
    assert stored_limits(ALL) == stored
    assert limits_of(tuple(stored.values())) == ALL
