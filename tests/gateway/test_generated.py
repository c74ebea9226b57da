"""Some hundred made-up requests to every path: always an envelope or a page, and no charge for a
failure. The campaign of `make torture` sends a hundred thousand."""

from collections.abc import Iterator
from datetime import date

import pytest

from tests.support.gateway import Gateway
from tests.support.generated import (
    Campaign,
    described_cases,
    nearly_right_requests,
    other_requests,
    run,
)
from tests.support.stores import Store

# What is generated does not depend on the engine; the campaign uses both.
pytestmark = pytest.mark.sqlite


@pytest.fixture(scope="module")
def campaign(gateway: Gateway, store: Store) -> Iterator[Campaign]:
    made = Campaign(gateway, store, mapped=False)
    yield made
    made.close()


def test_requests_of_the_description(campaign: Campaign) -> None:
    run(40, described_cases(campaign.gateway), campaign.send_described)
    campaign.assert_only_successes_were_charged()


def test_requests_of_all_paths(campaign: Campaign, today: date) -> None:
    run(150, other_requests(campaign, today), campaign.send)
    run(100, nearly_right_requests(campaign, today), campaign.send)
    campaign.assert_only_successes_were_charged()
    assert campaign.counts["pages"] and campaign.counts["envelopes"]
