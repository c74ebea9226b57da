"""Some hundred made-up requests to every path: always an envelope or a page, and no charge for a
failure. The campaign of `make torture` sends a hundred thousand."""

from collections.abc import Iterator
from datetime import date

import pytest

from tests.support.gateway import Gateway
from tests.support.generated import Answered, Campaign, described_cases, run
from tests.support.generated_requests import nearly_right_requests, other_requests
from tests.support.stores import Store
from tollway.operations.catalogue import OPERATIONS

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


def test_requests_of_the_description_with_mapped_statuses(own_store: Store) -> None:
    gateway = Gateway(own_store, http_status="mapped")
    campaign = Campaign(gateway, own_store, mapped=True)
    run(30, described_cases(gateway), campaign.send_described)
    campaign.assert_only_successes_were_charged()
    campaign.close()
    assert gateway.stop() == 0


WRONG = {
    "a server error": Answered(500, {}, b""),
    "an envelope of code 200": Answered(
        200,
        {"content-type": "application/json", "x-request-id": "x"},
        b'{"code":200,"msg":"x","msec":0,"time":0,"data":{}}',
    ),
    "a page from an operation": Answered(200, {"content-type": "text/html"}, b"<p>"),
    "a trace": Answered(404, {"content-type": "text/plain"}, b"Traceback (most recent call last)"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_control_a_wrong_answer_is_noticed(campaign: Campaign, wrong: str) -> None:
    path = OPERATIONS[0].path if wrong == "a page from an operation" else "/"
    with pytest.raises(AssertionError):
        campaign.check(path, WRONG[wrong], wrong)


def test_requests_of_all_paths(campaign: Campaign, today: date) -> None:
    run(150, other_requests(campaign, today), campaign.send)
    run(100, nearly_right_requests(campaign, today), campaign.send)
    campaign.assert_only_successes_were_charged()
    assert campaign.counts["pages"] and campaign.counts["envelopes"]


def test_control_a_charge_for_a_failure_is_noticed(
    campaign: Campaign, question: dict[str, str]
) -> None:
    # This call is not one of the campaign's successes.
    assert campaign.gateway.get(token=campaign.caller.token, query=question).code == 0
    with pytest.raises(AssertionError):
        campaign.assert_only_successes_were_charged()
