"""The ledger against its model: 2,000 examples of up to 30 steps, about four minutes."""

import pytest

from tests.ledger.ledger_campaign import run_campaign

pytestmark = [pytest.mark.torture, pytest.mark.sqlite]


def test_the_ledger_is_as_it_should_be_in_2000_examples() -> None:
    run_campaign(examples=2000)
