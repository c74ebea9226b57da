"""How requests get from the server's threads to the loop, and which of them become tasks."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_network
from typing import Any, cast

import pytest

from tollway.gateway import dispatch
from tollway.gateway.dispatch import CallTest, Dispatcher
from tollway.gateway.pages import address_of
from tollway.ledger.charge_queue import PendingCharge
from tollway.ledger.charges import Charge
from tollway.pipeline.bodies import ByteBudget, Receive, Scope, Send
from tollway.pipeline.call import Answer, Call
from tollway.pipeline.http import Edge
from tollway.pipeline.http import Request as EdgeRequest
from tollway.pipeline.steps import Progress, Waiting, failing
from tollway.settings import Settings
from tollway.store import loop_share
from tollway.store.loop_share import LoopShare
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.sqlite
ANSWER = Answer(200, [], b"answer")
CROWD = 200
# Of the event loop.
_SHARE = 1 / 4
PROXY = "198.51.100.1"
PROXIES = (ip_network(PROXY),)
_PLAIN = {
    "http_version": "1.1",
    "method": "GET",
    "raw_path": b"/",
    "query_string": b"",
    "headers": [(b"host", b"test")],
    "client": ("127.0.0.1", 9),
}


class Request:
    """One request, as the server hands it over."""

    def __init__(self, number: int = 0, address: str = "192.0.2.1") -> None:
        """One of our proxy, which says so, if the address has a sign before it."""
        proxied = [(b"x-forwarded-for", address[1:].encode())] if address.startswith("@") else []
        peer = PROXY if proxied else address
        self.scope: Scope = {"number": number, "client": (peer, 9), "headers": proxied}
        self.proto = self
        self.sent: list[Any] = []
        self.errors: list[BaseException] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.is_done = False

    async def receive(self) -> dict[str, Any]:
        raise AssertionError("nothing reads it")

    def send(self, message: Any) -> None:
        self.sent.append(message["type"])

    def err(self, error: BaseException) -> None:
        self.errors.append(error)

    def done(self) -> None:
        self.is_done = True

    def taskref(self, task: asyncio.Task[None]) -> None:
        self.tasks.append(task)


class Application:
    """Begins each request as the test says, and answers those that have waited. Requests with a
    number below that of the first call are for pages."""

    def __init__(self, begin: Callable[[Scope], Progress], first_call: int = 0) -> None:
        self._begin = begin
        self._first_call = first_call
        self.edge: Any = self

    def call_test(self) -> CallTest | None:
        return lambda scope: scope["number"] >= self._first_call

    def address_of(self, scope: Scope) -> str:
        return address_of(scope, PROXIES)

    def begin(self, requests: Sequence[EdgeRequest]) -> list[Progress]:
        return [self._begin(scope) for scope, _ in requests]

    def go_on(self, waiting: Sequence[Waiting]) -> list[Progress]:
        return [after(each) for each in waiting]

    async def send(self, _answer: Answer, _receive: Receive, _send: Send) -> None:
        raise AssertionError("no answer is a file")


def after(waiting: Waiting) -> Progress:
    try:
        waiting.pending.resume()
    except (Exception, asyncio.CancelledError) as error:
        return failing(error)
    return ANSWER


def waits_for(charge: PendingCharge) -> Waiting:
    return Waiting(cast(Any, None), charge, cast(Any, None))


def pending() -> PendingCharge:
    return PendingCharge(Charge("acc_x", "credits", 1, "orders", "r", "tok_x", 0), 0.0)


async def page(request: Request) -> None:
    request.sent.append("page")


def run(
    begin: Callable[[Scope], Progress],
    use: Callable[[Dispatcher], Awaitable[None]],
    first_call: int = 0,
) -> None:
    async def work() -> None:
        async with asyncio.timeout(20):
            application = Application(begin, first_call)
            await use(Dispatcher(application, asyncio.get_running_loop(), page))

    asyncio.run(work())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - it can only be polled
        await asyncio.sleep(0)


HEAD_AND_BODY = ["http.response.start", "http.response.body"]


def test_an_answer_that_is_there_at_once_needs_no_task() -> None:
    async def use(dispatcher: Dispatcher) -> None:
        request = Request()
        dispatcher.add(request)
        await until(lambda: bool(request.sent))
        assert (request.sent, request.tasks) == (HEAD_AND_BODY, [])

    run(lambda _: ANSWER, use)


def test_a_call_that_waits_for_its_charge_needs_none_either() -> None:
    charges: list[PendingCharge] = []

    def begin(_: Scope) -> Waiting:
        charges.append(pending())
        return waits_for(charges[0])

    async def use(dispatcher: Dispatcher) -> None:
        request = Request()
        dispatcher.add(request)
        await until(lambda: bool(charges))
        assert request.sent == []
        charges[0].end(None)
        await until(lambda: bool(request.sent))
        assert (request.sent, request.tasks) == (HEAD_AND_BODY, [])

    run(begin, use)


def test_what_must_wait_and_what_is_no_call_become_tasks() -> None:
    async def late() -> Answer:
        await asyncio.sleep(0)
        return ANSWER

    async def use(dispatcher: Dispatcher) -> None:
        requests = [Request(0), Request(1)]
        for each in requests:
            dispatcher.add(each)
        await until(lambda: all(each.tasks for each in requests))
        await asyncio.gather(*(task for each in requests for task in each.tasks))
        assert [each.sent for each in requests] == [["page"], HEAD_AND_BODY]
        assert requests[1].is_done

    run(lambda _: late(), use, first_call=1)


def test_a_call_does_not_wait_for_a_crowd_that_asks_for_pages() -> None:
    """The crowd came first; a call that takes a few turns is answered before most of it."""
    charges: list[PendingCharge] = []

    def begin(_: Scope) -> Waiting:
        charges.append(pending())
        return waits_for(charges[0])

    async def use(dispatcher: Dispatcher) -> None:
        requests = [Request(number) for number in range(CROWD + 1)]
        for each in requests:
            dispatcher.add(each)
        await until(lambda: bool(charges))
        for _ in range(4):
            await asyncio.sleep(0)
        charges[0].end(None)
        await until(lambda: bool(requests[-1].sent))
        assert sum(bool(each.sent) for each in requests[:-1]) < CROWD / 4
        await until(lambda: all(each.sent for each in requests))
        assert [each.sent for each in requests[:-1]] == [["page"]] * CROWD

    run(begin, use, first_call=CROWD)


@pytest.mark.parametrize("by", ["", "@"])
@pytest.mark.parametrize("address", ["192.0.2.2", "2001:db8:0:1::1"])
def test_a_request_that_is_no_call_waits_for_no_crowd_of_another_address(
    address: str, by: str
) -> None:
    """Such as the probe of a load balancer, which would take the gateway for dead."""

    async def use(dispatcher: Dispatcher) -> None:
        # One network of IPv6 counts as one address.
        crowd = [Request(address=f"{by}2001:db8::{number:x}") for number in range(CROWD)]
        probe = Request(address=f"{by}{address}")
        for each in (*crowd, probe):
            dispatcher.add(each)
        await until(lambda: bool(probe.sent))
        assert sum(bool(each.sent) for each in crowd) < CROWD / 4
        await until(lambda: all(each.sent for each in crowd))
        assert [each.sent for each in crowd] == [["page"]] * CROWD

    run(lambda _: ANSWER, use, first_call=1)


def test_requests_that_are_no_calls_leave_most_of_the_loop_to_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_share, "_BURST_S", 0.0)
    monkeypatch.setattr(dispatch, "_REST_MAX_S", 60.0)
    made_s = 0.0

    async def probe(request: Request) -> None:
        nonlocal made_s
        began_s = time.perf_counter()
        while time.perf_counter() - began_s < 0.005:
            pass
        made_s += time.perf_counter() - began_s
        request.sent.append("probe")

    async def work() -> float:
        dispatcher = Dispatcher(
            Application(lambda _: ANSWER, first_call=1), asyncio.get_running_loop(), probe
        )
        requests, began_s = [Request() for _ in range(40)], time.perf_counter()
        for each in requests:
            dispatcher.add(each)
        await until(lambda: all(each.sent for each in requests))
        return time.perf_counter() - began_s

    took_s = asyncio.run(work())
    # Some begin before it is known how long they take, and nothing waits for the last few.
    assert took_s > 0.6 * made_s / _SHARE


async def test_before_a_stop_all_requests_begin_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are calls cannot be recognised then."""
    monkeypatch.setattr(dispatch, "_REST_MAX_S", 60.0)
    monkeypatch.setattr(LoopShare, "rest_s", lambda _: 60.0)

    class Draining(Application):
        def call_test(self) -> None:
            return None

    dispatcher = Dispatcher(Draining(lambda _: ANSWER), asyncio.get_running_loop(), page)
    requests = [Request(number) for number in range(40)]
    for each in requests:
        dispatcher.add(each)
    async with asyncio.timeout(20):
        await until(lambda: all(each.sent for each in requests))


def test_a_call_that_failed_ends_alone() -> None:
    def begin(scope: Scope) -> Progress:
        return failing(ValueError("a mistake")) if scope["number"] == 1 else ANSWER

    async def use(dispatcher: Dispatcher) -> None:
        requests = [Request(number) for number in range(3)]
        for each in requests:
            dispatcher.add(each)
        await until(lambda: bool(requests[2].sent and requests[1].errors))
        assert [len(each.sent) for each in requests] == [2, 0, 2]
        assert [len(each.errors) for each in requests] == [0, 1, 0]

    run(begin, use)


def test_a_connection_that_is_gone_takes_no_other_answer_with_it() -> None:
    class Gone(Request):
        def send(self, _message: Any) -> None:
            raise ConnectionError("it is gone")

    async def use(dispatcher: Dispatcher) -> None:
        requests = [Request(0), Gone(1), Request(2)]
        for each in requests:
            dispatcher.add(each)
        await until(lambda: bool(requests[2].sent))
        assert [len(each.errors) for each in requests] == [0, 1, 0]

    run(lambda _: ANSWER, use)


async def test_calls_that_came_together_begin_and_go_on_together() -> None:
    charges: list[PendingCharge] = []
    together: list[tuple[str, int]] = []

    class Noted(Application):
        def begin(self, requests: Sequence[EdgeRequest]) -> list[Progress]:
            together.append(("begin", len(requests)))
            return super().begin(requests)

        def go_on(self, waiting: Sequence[Waiting]) -> list[Progress]:
            together.append(("go on", len(waiting)))
            return super().go_on(waiting)

    def begin(_: Scope) -> Waiting:
        charges.append(pending())
        return waits_for(charges[-1])

    dispatcher = Dispatcher(Noted(begin), asyncio.get_running_loop(), page)
    requests = [Request(number) for number in range(40)]
    for each in requests:
        dispatcher.add(each)
    await until(lambda: len(charges) == 40)
    for charge in charges:
        charge.end(None)
    async with asyncio.timeout(20):
        await until(lambda: all(each.sent for each in requests))
    assert together == [("begin", 32), ("begin", 8), ("go on", 32), ("go on", 8)]


def test_requests_are_begun_after_one_whose_error_could_not_be_reported() -> None:
    class Broken(Request):
        def err(self, _error: BaseException) -> None:
            raise RuntimeError("the connection is gone")

    def begin(scope: Scope) -> Answer:
        if scope["number"] < 3:
            raise ValueError("a mistake")
        return ANSWER

    async def use(dispatcher: Dispatcher) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        requests = [Request(0), Broken(1), Request(2)]
        for each in requests:
            dispatcher.add(each)
        await until(lambda: bool(requests[2].errors))
        assert [len(each.errors) for each in requests] == [1, 0, 1]
        later = Request(3)
        dispatcher.add(later)
        await until(lambda: bool(later.sent))

    run(begin, use)


def test_a_call_whose_charge_was_cancelled_is_ended() -> None:
    charges: list[PendingCharge] = []

    def begin(_: Scope) -> Waiting:
        charges.append(pending())
        return waits_for(charges[0])

    async def use(dispatcher: Dispatcher) -> None:
        request = Request()
        dispatcher.add(request)
        await until(lambda: bool(charges))
        charges[0].cancel()
        await until(lambda: bool(request.errors))
        assert request.sent == []

    run(begin, use)


async def test_the_client_of_a_call_that_was_cancelled_is_let_go() -> None:
    class Cancelled:
        def run(self, calls: Sequence[Call]) -> list[Waiting]:
            charge = pending()
            charge.cancel()
            return [Waiting(call, charge, cast(Any, None)) for call in calls]

        def go_on(self, waiting: Sequence[Waiting]) -> list[Progress]:
            assert edge.in_hand == set()
            return [after(each) for each in waiting]

    class Served(Application):
        def __init__(self, calls: Any) -> None:
            super().__init__(cast(Any, None))
            self.edge = calls

    edge = Edge(Cancelled(), Settings(), Metrics(), ByteBudget())  # type: ignore[arg-type]
    request = Request()
    request.scope |= _PLAIN
    Dispatcher(Served(edge), asyncio.get_running_loop(), page).add(request)
    async with asyncio.timeout(20):
        await until(lambda: bool(request.errors))
    assert edge.in_hand == set()


def test_no_request_is_forgotten_while_threads_add_more() -> None:
    requests = [[Request() for _ in range(2000)] for _ in range(4)]

    async def use(dispatcher: Dispatcher) -> None:
        def add(some: list[Request]) -> None:
            for each in some:
                dispatcher.add(each)

        threads = [threading.Thread(target=add, args=(some,)) for some in requests]
        for each in threads:
            each.start()
        await until(lambda: all(each.sent for some in requests for each in reversed(some)))
        assert all(each.sent == HEAD_AND_BODY for some in requests for each in some)

    run(lambda _: ANSWER, use)


def test_a_request_that_is_not_even_read_ends_no_other() -> None:
    async def use(dispatcher: Dispatcher) -> None:
        requests = [Request(number) for number in range(5)]
        requests[2].scope = {}
        for each in requests:
            dispatcher.add(each)
        others = [each for each in requests if each is not requests[2]]
        await until(lambda: all(each.sent for each in others))
        assert [type(each) for each in requests[2].errors] == [KeyError]
        assert requests[2].sent == []

    run(lambda _: ANSWER, use)
