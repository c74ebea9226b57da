"""The events as the reference shows them have what real ones have."""

import pytest

from tollway.operations.account_api.examples import REQUEST_ID
from tollway.telemetry.requests import new_request_id
from tollway.webhooks.events import EVENT_TYPES

pytestmark = pytest.mark.sqlite


@pytest.mark.parametrize("shown", [EVENT_TYPES["export.ready"].example["request_id"], REQUEST_ID])
def test_the_request_id_of_an_example_has_the_form_of_a_real_one(shown: str) -> None:
    real = new_request_id(1769832000)
    assert len(shown) == len(real) and set(shown) <= set("0123456789abcdef")
    # It begins with the time, to about a second.
    assert shown[:7] == real[:7]
