"""Webhooks outlive the gateway; the long campaign is in tests/torture."""

import json
from pathlib import Path

import pytest

from tests.webhooks.killing import campaign, check

# Twice as many as there are subjects.
EVENTS = 40


def test_what_was_committed_is_delivered_in_order_though_the_gateway_is_killed(
    tmp_path: Path,
) -> None:
    received, secret = campaign(tmp_path, events=EVENTS, kills=2, seed=1)
    # The controls: what would be missing, or in another order, is noticed.
    last = json.loads(received[-1].body)["data"]["n"]
    fewer = [each for each in received if json.loads(each.body)["data"]["n"] != last]
    with pytest.raises(AssertionError, match="each arrives"):
        check(fewer, secret, EVENTS)
    with pytest.raises(AssertionError, match="in order"):
        check(received[::-1], secret, EVENTS)
