"""Webhooks outlive the gateway; the long campaign is in tests/torture."""

from pathlib import Path

from tests.webhooks.killing import campaign


def test_what_was_committed_is_delivered_in_order_though_the_gateway_is_killed(
    tmp_path: Path,
) -> None:
    campaign(tmp_path, events=60, kills=2, seed=1)
