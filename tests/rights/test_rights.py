"""What has ended is refused by every node and costs nothing: a short campaign, and its controls."""

from collections.abc import Iterator
from datetime import date

import pytest

from tests.rights.blind_gateway import BlindGateway, BlindToFreeCalls
from tests.rights.calls import KINDS
from tests.rights.campaign import (
    NEVER_S,
    NOTIFIED,
    SETTINGS,
    UNNOTIFIED,
    Campaign,
    world_of_rights,
)
from tests.support.engines import Engine
from tests.support.gateway import Gateway
from tests.support.stores import Store

SEED = 20_261_119
NODES, WORKERS, DOORS = 2, 2, 12
ACCOUNTS, STEPS = 2, 8
# Of the machine that runs the tests, which may be busy; the long campaign measures it.
KNOWN_AFTER_S = 20.0


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, today: date, engine: Engine) -> Store:
    made = Store(tmp_path_factory.mktemp("rights") / "tollway.db")
    return world_of_rights(made, today, numbers=5_000)


@pytest.fixture(scope="module")
def nodes(store: Store) -> Iterator[list[Gateway]]:
    started = [Gateway(store, workers=1, **SETTINGS) for _ in range(NODES)]
    yield started
    assert [node.stop() for node in started] == [0] * NODES


@pytest.mark.postgresql
@pytest.mark.parametrize("known_after_s", [KNOWN_AFTER_S, NEVER_S], ids=["notified", "not"])
def test_what_has_ended_is_refused_by_every_node(
    store: Store, nodes: list[Gateway], today: date, known_after_s: float
) -> None:
    store.run(UNNOTIFIED if known_after_s == NEVER_S else NOTIFIED)
    campaign = Campaign(store, nodes, today, SEED, known_after_s=known_after_s)
    campaign.run(ACCOUNTS, STEPS)
    assert not campaign.faults, campaign.figures()


@pytest.mark.sqlite
def test_what_has_ended_is_refused_by_every_worker(store: Store, today: date) -> None:
    with Gateway(store, workers=WORKERS, **SETTINGS) as node:
        campaign = Campaign(store, [node], today, SEED, known_after_s=0.0, doors_each=DOORS)
        campaign.run(ACCOUNTS, STEPS)
    assert not campaign.faults, campaign.figures()


@pytest.mark.postgresql
@pytest.mark.parametrize("blind", [BlindGateway, BlindToFreeCalls])
def test_a_node_that_goes_by_what_it_remembers_is_found(
    store: Store, today: date, blind: type[BlindGateway]
) -> None:
    """The control."""
    store.run(UNNOTIFIED)
    # Calls of the other kinds would have the node look.
    kinds = [each for each in KINDS if each.is_paid == blind.of_paid_calls]
    with blind(store, workers=1, **SETTINGS) as node:
        campaign = Campaign(store, [node], today, SEED, known_after_s=NEVER_S, kinds=kinds)
        campaign.run(ACCOUNTS, STEPS)
    assert any("success in place of" in fault for fault in campaign.faults)
