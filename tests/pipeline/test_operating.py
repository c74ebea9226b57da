"""What machines ask of a running gateway: health, readiness, metrics."""

from datetime import date

import pytest

from tests.support.gateway import Gateway
from tests.support.ledger import new_caller
from tests.support.metrics import metrics, sample
from tests.support.raw import request, talk
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS

NAME = PRODUCT_ANALYSIS.name


class Difference:
    """How much each sample grew between two looks."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._before = metrics(gateway)

    def look(self) -> None:
        self._after = metrics(self._gateway)

    def of(self, name: str, **labels: object) -> float:
        return sample(self._after, name, **labels) - sample(self._before, name, **labels)


def test_it_says_that_it_lives_and_is_ready(gateway: Gateway) -> None:
    for path, expected in (("/healthz", {"status": "ok"}), ("/readyz", {"status": "ready"})):
        response = gateway.client.get(path)
        assert (response.status_code, response.json()) == (200, expected)


@pytest.mark.parametrize("path", ["/%6detrics", "/%68ealthz", "/oauth/%74oken", "/%6fwner"])
def test_a_page_has_one_name_by_which_a_proxy_can_tell_it(gateway: Gateway, path: str) -> None:
    # Sent as it is: a client would write it the usual way.
    assert talk(gateway.port, request(path, "Host: gateway"), expected=1).codes == [404]


def test_calls_are_counted_by_operation_code_and_reason(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store, calls=2, rate_limit=5)
    grown = Difference(gateway)
    for _ in range(2):
        gateway.get(token=caller.token, query=question)
    for _ in range(3):
        gateway.get(token=caller.token, query=question)
    gateway.get(query=question)
    gateway.get("/nowhere")
    grown.look()

    def calls(operation: str, code: int, reason: str) -> float:
        return grown.of("tollway_calls_total", operation=operation, code=code, reason=reason)

    assert calls(NAME, 0, "SUCCESS") == 2
    assert calls(NAME, 204, "CALLS_USED_UP") == 3
    assert calls(NAME, 401, "CREDENTIAL_INVALID") == 1
    assert calls("none", 404, "PATH_UNKNOWN") == 1
    assert grown.of("tollway_balances_refused_total") == 3


def test_latencies_of_live_calls_are_a_histogram_per_operation(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller, tester = new_caller(store), new_caller(store, kind="test")
    grown = Difference(gateway)
    for _ in range(4):
        gateway.get(token=caller.token, query=question)
    assert gateway.get(token=tester.token, query=question).code == 0
    grown.look()
    assert grown.of("tollway_call_seconds_count", operation=NAME) == 4
    assert grown.of("tollway_call_seconds_bucket", operation=NAME, le="+Inf") == 4
    bounds = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 10.0)
    counts = [grown.of("tollway_call_seconds_bucket", operation=NAME, le=le) for le in bounds]
    assert counts == sorted(counts), "buckets are cumulative"
    assert 0 < grown.of("tollway_call_seconds_sum", operation=NAME) < 60


def test_settling_and_the_database_are_measured(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store)
    grown = Difference(gateway)
    for _ in range(3):
        assert gateway.get(token=caller.token, query=question).code == 0
    grown.look()
    assert grown.of("tollway_settle_batch_calls_count") == 3
    assert grown.of("tollway_settle_batch_calls_sum") == 3
    assert grown.of("tollway_settle_batch_calls_bucket", le="1.0") == 3
    assert grown.of("tollway_database_write_seconds_count") >= 3
    assert 0 < grown.of("tollway_database_write_seconds_sum") < 60
    assert grown.of("tollway_database_read_seconds_count") > 0
    assert 0 < grown.of("tollway_database_read_seconds_sum") < 60


def test_names_that_callers_choose_do_not_become_labels(gateway: Gateway) -> None:
    before = len(metrics(gateway))
    for number in range(50):
        gateway.get(f"/made-up/{number}")
        gateway.get("/made-up", method=f"M{number}")
        gateway.get(token=f"tw_live_{number}")
    assert len(metrics(gateway)) <= before + 40, "one row per call would fill any monitoring"


def test_a_gateway_whose_database_cannot_be_written_lives_but_is_not_ready(
    own_store: Store, today: date
) -> None:
    assert today
    gateway = Gateway(own_store, call_timeout_s=1)
    with own_store.held():
        assert gateway.client.get("/healthz").status_code == 200
        response = gateway.client.get("/readyz")
        assert (response.status_code, response.json()["reason"]) == (503, "database_busy")
    # On a busy machine a second may be too short for a database that is not blocked.
    eventually(lambda: gateway.client.get("/readyz").status_code, lambda status: status == 200)
    assert gateway.stop() == 0


def test_constant_readiness_probes_cost_few_writes(gateway: Gateway) -> None:
    name, asked = "tollway_database_write_seconds_count", 200
    before = sample(metrics(gateway), name)
    for _ in range(asked):
        assert gateway.client.get("/readyz").status_code == 200
    assert sample(metrics(gateway), name) - before < asked / 2


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_need_no_token_and_take_no_other_method(gateway: Gateway, path: str) -> None:
    assert gateway.client.get(path).status_code == 200
    assert gateway.client.post(path).status_code == 405
