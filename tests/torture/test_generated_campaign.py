"""A hundred thousand made-up requests to every path, on both engines and with both kinds of HTTP
status: about an hour. `REQUESTS=…` sends another number."""

import os
from datetime import date

import pytest

from tests.support.all_operations import small_world
from tests.support.gateway import Gateway
from tests.support.generated import Campaign, described_cases, run
from tests.support.generated_requests import nearly_right_requests, other_requests
from tests.support.stores import Store

pytestmark = pytest.mark.torture

# Each engine and each kind of status has a quarter.
_REQUESTS = int(os.environ.get("REQUESTS") or 100_000) // 4
_ROUNDS = 10
_GROWTH_MAX_MIB = 30


@pytest.mark.parametrize("http_status", ["always_200", "mapped"])
def test_every_answer_is_an_envelope_or_a_page(
    own_store: Store, today: date, http_status: str
) -> None:
    small_world(own_store, today)
    gateway = Gateway(own_store, mcp="on", http_status=http_status)
    campaign = Campaign(gateway, own_store, mapped=http_status == "mapped")
    described = described_cases(gateway)
    others = other_requests(campaign, today)
    nearly_right = nearly_right_requests(campaign, today)
    memory_mib = []
    for _ in range(_ROUNDS):
        # Those of the description take longest to make.
        run(max(1, _REQUESTS // _ROUNDS // 10), described, campaign.send_described)
        run(_REQUESTS // _ROUNDS // 2, others, campaign.send)
        run(_REQUESTS // _ROUNDS * 4 // 10, nearly_right, campaign.send)
        campaign.assert_only_successes_were_charged()
        memory_mib.append(round(campaign.memory_mib(), 1))
        print(http_status, dict(sorted(campaign.counts.items())), memory_mib, flush=True)  # noqa: T201
    # Caches fill in the first rounds; from then on memory is flat.
    assert memory_mib[-1] - memory_mib[1] < _GROWTH_MAX_MIB
    campaign.close()
    assert gateway.stop() == 0
