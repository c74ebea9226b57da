"""A carrier that does not answer is left alone, tried again, and costs the others nothing."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.carriers.conftest import Clock, ask, carrier_with, link_to, new_order
from tests.support.fake_carrier import ISSUE, LOOK_UP, FakeCarrier
from tollway.carriers.carriers import Carrier
from tollway.carriers.connectors.breaker import Breaker, State
from tollway.carriers.connectors.connector import (
    Issued,
    LinkRefusedError,
    NotSentError,
    OutcomeUnknownError,
    TurnedAwayError,
)
from tollway.carriers.connectors.http_exchange import open_client
from tollway.carriers.connectors.remote_carriers import Remotes

PAUSE_S = 10.0


def _breaker(clock: Clock, failures_max: int = 3, in_flight_max: int = 4) -> Breaker:
    return Breaker(
        "YTO", clock, failures_max=failures_max, pause_s=PAUSE_S, in_flight_max=in_flight_max
    )


def _fail(breaker: Breaker, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(OutcomeUnknownError), breaker.message():
            raise OutcomeUnknownError


def _succeed(breaker: Breaker) -> None:
    with breaker.message():
        pass


def _passes(seconds: float) -> Callable[[Clock, Breaker], None]:
    def step(clock: Clock, _: Breaker) -> None:
        clock.now_s += seconds

    return step


def _fails(times: int) -> Callable[[Clock, Breaker], None]:
    return lambda _, breaker: _fail(breaker, times)


def _answers(_: Clock, breaker: Breaker) -> None:
    _succeed(breaker)


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        ([], State.CLOSED),
        ([_fails(2)], State.CLOSED),
        ([_fails(3)], State.OPEN),
        ([_fails(2), _answers, _fails(2)], State.CLOSED),
        ([_fails(3), _passes(PAUSE_S - 0.1)], State.OPEN),
        ([_fails(3), _passes(PAUSE_S)], State.HALF_OPEN),
        ([_fails(3), _passes(PAUSE_S), _answers], State.CLOSED),
        ([_fails(3), _passes(PAUSE_S), _answers, _fails(2)], State.CLOSED),
        ([_fails(3), _passes(PAUSE_S), _fails(1)], State.OPEN),
        ([_fails(3), _passes(PAUSE_S), _fails(1), _passes(PAUSE_S)], State.HALF_OPEN),
    ],
)
def test_when_messages_are_let_through(
    steps: list[Callable[[Clock, Breaker], None]], state: State
) -> None:
    clock = Clock()
    breaker = _breaker(clock)
    for step in steps:
        step(clock, breaker)
    assert breaker.state is state
    if state is State.OPEN:
        with pytest.raises(NotSentError, match="nothing is sent"):
            _succeed(breaker)


def test_what_began_before_it_opened_tells_nothing_of_now() -> None:
    clock = Clock()
    breaker = _breaker(clock)
    old = breaker.message()
    old.__enter__()
    _fail(breaker, 3)
    old.__exit__(None, None, None)
    assert breaker.state is State.OPEN
    clock.now_s += PAUSE_S
    with breaker.message(), pytest.raises(NotSentError):
        _succeed(breaker)
    assert breaker.state is State.CLOSED


def test_a_link_that_is_refused_counts_and_a_message_that_is_turned_away_does_not() -> None:
    """The first is so for all messages; the second may be so for one receiver's alone."""
    for kind, state in ((LinkRefusedError, State.OPEN), (TurnedAwayError, State.CLOSED)):
        breaker = _breaker(Clock())
        for _ in range(3):
            with pytest.raises(kind), breaker.message():
                raise kind("S02")
        assert breaker.state is state


@given(st.lists(st.sampled_from(["start", "answer", "fail", "give up", "wait", "wait long"])))
def test_whatever_happens_it_is_bounded_probes_one_at_a_time_and_recovers(
    steps: list[str],
) -> None:
    clock = Clock()
    breaker = _breaker(clock)
    under_way: list[tuple[State, AbstractContextManager[None]]] = []
    for step in steps:
        if step == "start":
            state, message = breaker.state, breaker.message()
            try:
                message.__enter__()
            except NotSentError:
                continue
            assert state is not State.OPEN
            under_way.append((state, message))
        elif step.startswith("wait"):
            clock.now_s += PAUSE_S if step == "wait long" else 1
        elif under_way:
            _end(under_way.pop(0)[1], step)
        assert breaker.in_flight == len(under_way) <= 4
        assert sum(state is State.HALF_OPEN for state, _ in under_way) <= 1
    while under_way:
        _end(under_way.pop()[1], "fail")
    clock.now_s += PAUSE_S
    _succeed(breaker)
    assert (breaker.state, breaker.in_flight) == (State.CLOSED, 0)


def _end(message: AbstractContextManager[None], how: str) -> None:
    error = {"fail": OutcomeUnknownError(), "give up": asyncio.CancelledError()}.get(how)
    if error is None:
        message.__exit__(None, None, None)
    else:
        with pytest.raises(type(error)):
            message.__exit__(type(error), error, None)
            raise error


@pytest.mark.parametrize("failures_max", [2, 1000])
def test_an_open_breaker_sends_nothing_and_the_control(
    fake: FakeCarrier, failures_max: int
) -> None:
    clock = Clock()
    breaker = _breaker(clock, failures_max)
    before, link = fake.received(ISSUE), link_to(fake.url)
    fake.misbehave("cut_before_commit", times=2)
    for _ in range(2):
        with pytest.raises(OutcomeUnknownError):
            ask(link, lambda to: to.issue(new_order()), breaker=breaker)
    if failures_max == 1000:
        # The control: such a breaker never opens, and the message gets through.
        ask(link, lambda to: to.issue(new_order()), breaker=breaker)
        assert fake.received(ISSUE) == before + 3
        return
    with pytest.raises(NotSentError, match="2 times in a row"):
        ask(link, lambda to: to.issue(new_order()), breaker=breaker)
    assert fake.received(ISSUE) == before + 2
    clock.now_s += PAUSE_S
    issued = ask(link, lambda to: to.issue(new_order()), breaker=breaker)
    assert isinstance(issued, Issued) and breaker.state is State.CLOSED


def test_a_refusal_is_an_answer_and_opens_nothing(fake: FakeCarrier) -> None:
    breaker = _breaker(Clock(), failures_max=1)
    fake.misbehave("refuse", times=1)
    ask(link_to(fake.url), lambda to: to.issue(new_order()), breaker=breaker)
    assert breaker.state is State.CLOSED


def test_a_cancelled_message_says_nothing_of_the_carrier() -> None:
    clock = Clock()
    breaker = _breaker(clock)
    for _ in range(3):
        _end(_begun(breaker), "give up")
    assert breaker.state is State.CLOSED
    _fail(breaker, 2)
    _end(_begun(breaker), "give up")
    _fail(breaker)
    assert breaker.state is State.OPEN
    # A probe that is cancelled leaves the next message to be the probe.
    clock.now_s += PAUSE_S
    _end(_begun(breaker), "give up")
    assert breaker.state is State.HALF_OPEN
    _succeed(breaker)
    assert breaker.state is State.CLOSED


def _begun(breaker: Breaker) -> AbstractContextManager[None]:
    message = breaker.message()
    message.__enter__()
    return message


def test_an_answer_that_cannot_be_used_is_an_answer_and_opens_nothing(
    fake: FakeCarrier, tmp_path: Path
) -> None:
    breaker = _breaker(Clock(), failures_max=1)
    order = new_order()
    odd = FakeCarrier(tmp_path, "--numbers-format", "XX####")
    try:
        for question in (lambda to: to.issue(order), lambda to: to.look_up(order.ref)):
            with pytest.raises(OutcomeUnknownError, match="not in its format"):
                ask(link_to(odd.url), question, breaker=breaker)
    finally:
        # Left running, it would fail the next test too.
        assert odd.stop() == 0
    fake.misbehave("refuse", message=LOOK_UP, times=1)
    with pytest.raises(OutcomeUnknownError, match="does not say"):
        ask(link_to(fake.url), lambda to: to.look_up(order.ref), breaker=breaker)
    assert breaker.state is State.CLOSED
    # The control: no answer at all.
    fake.misbehave("wrong_digest", message=ISSUE, times=1)
    with pytest.raises(OutcomeUnknownError):
        ask(link_to(fake.url), lambda to: to.issue(new_order()), breaker=breaker)
    assert breaker.state is State.OPEN


def test_a_carrier_that_hangs_holds_a_bounded_number_of_calls_and_no_other_carrier(
    fake: FakeCarrier,
) -> None:
    fake.misbehave("stall_before_commit", message=ISSUE, times=256)
    before = fake.received(ISSUE)

    async def work() -> None:
        remotes = Remotes(open_client())
        link = link_to(fake.url, deadline_ms=30_000)
        hung = [
            asyncio.create_task(remotes.connector(carrier_with(), link).issue(new_order()))
            for _ in range(256)
        ]
        # It is another process that is waited for, so there is no event to wait on.
        while fake.received(ISSUE) < before + 256:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert remotes.breakers["YTO"].in_flight == 256
        with pytest.raises(NotSentError, match="256 messages"):
            await remotes.connector(carrier_with(), link).issue(new_order())
        other = Carrier("ZTO", "中通快递", carrier_with().number_format, carrier_with().area)
        assert isinstance(await remotes.connector(other, link).issue(new_order()), Issued)
        for task in hung:
            task.cancel()
        await asyncio.gather(*hung, return_exceptions=True)
        assert remotes.breakers["YTO"].in_flight == 0
        await remotes.close()

    asyncio.run(work())
    assert fake.received(ISSUE) == before + 257
