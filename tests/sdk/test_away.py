"""A gateway that restarts behind a proxy, which answers for it meanwhile: calls are repeated where
that is safe, and what is left fails with an error that says to try again later."""

import io
import time
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.conftest import Run
from tests.support.all_operations import all_operations_caller
from tests.support.away import Away, FailingProxy
from tests.support.gateway import Gateway
from tests.support.ledger import Caller, credits_left
from tollway.demo.owners import SHOP
from tollway_client import Client, UnavailableError, errors
from tollway_client.command_line import main

# nginx answers 504 when the gateway has the request, and takes long.
RESTART = (Away(502), Away(503, {"retry-after": "1"}), Away(504, has_arrived=True))
STATUSES = [429, 502, 503, 504]
LATER = "of a proxy in front of the gateway, which is not available now: try again later."
SCRIPT = """
const client = new tollway.Client({ token, baseUrl, retries });
const failure = async (call) => {
  try { await call(); return null; }
  catch (error) {
    const { name, message, status, retryAfterS } = error;
    const is = error instanceof tollway.UnexpectedAnswerError;
    return [name, message, status, retryAfterS, is, typeof error.idempotencyKey];
  }
};
"""


@pytest.fixture
def caller(world: Gateway) -> Caller:
    return all_operations_caller(world.store)


def _assert_asked_once_and_paid_once(
    world: Gateway, caller: Caller, proxy: FailingProxy, replay_of: str | None, began_s: float
) -> None:
    assert len(proxy.keys) == 4 and len(set(proxy.keys)) == 1 and proxy.keys[0]
    assert replay_of and credits_left(world.store, caller) == 999
    assert time.monotonic() - began_s >= 1


def test_a_call_outlasts_a_restart_and_is_paid_once(world: Gateway, caller: Caller) -> None:
    began_s = time.monotonic()
    with FailingProxy(world.base_url, *RESTART) as proxy, Client(caller.token, proxy.url) as client:
        answer = client.orders(owner_id=SHOP.id)
    _assert_asked_once_and_paid_once(world, caller, proxy, answer.meta.replay_of, began_s)


def test_so_it_does_in_javascript(world: Gateway, caller: Caller, run: Run) -> None:
    script = "print((await client.orders({ owner_id })).meta.replayOf);"
    began_s = time.monotonic()
    with FailingProxy(world.base_url, *RESTART) as proxy:
        names = {"token": caller.token, "baseUrl": proxy.url, "retries": 4, "owner_id": SHOP.id}
        (replay_of,) = run(SCRIPT + script, **names)
    _assert_asked_once_and_paid_once(world, caller, proxy, replay_of, began_s)


@pytest.mark.parametrize("status", STATUSES)
def test_a_restart_that_takes_too_long_is_an_error_that_says_so(
    world: Gateway, caller: Caller, run: Run, status: int
) -> None:
    away = [Away(status, {"retry-after": "0"})] * 2
    with FailingProxy(world.base_url, *away) as proxy:
        unavailable = pytest.raises(UnavailableError)
        with Client(caller.token, proxy.url, retries=1) as client, unavailable as found:
            client.orders(owner_id=SHOP.id)
        assert (found.value.status, found.value.retry_after_s) == (status, 0)
        assert str(found.value) == f"HTTP status {status} {LATER}"
        # As before, for programs that expect it.
        assert isinstance(found.value, errors.UnexpectedAnswerError)
        assert [found.value.idempotency_key] * 2 == proxy.keys
        assert b"nginx" in found.value.body
    with FailingProxy(world.base_url, *away) as proxy:
        names = {"token": caller.token, "baseUrl": proxy.url, "retries": 1, "owner_id": SHOP.id}
        (failed,) = run(
            SCRIPT + "print(await failure(() => client.orders({ owner_id })));", **names
        )
        assert failed == [
            "UnavailableError",
            f"HTTP status {status} {LATER}",
            status,
            0,
            True,
            "string",
        ]
        assert len(proxy.keys) == 2
    assert credits_left(world.store, caller) == 1000


def test_what_cannot_be_repeated_is_sent_once(world: Gateway, caller: Caller, run: Run) -> None:
    """The gateway may have made the token before the proxy gave up."""
    with FailingProxy(world.base_url, Away(504, has_arrived=True)) as proxy:
        with Client(caller.token, proxy.url) as client, pytest.raises(UnavailableError):
            client.account.tokens_make(label="one")
        assert len(proxy.keys) == 1
    with FailingProxy(world.base_url, Away(504, has_arrived=True)) as proxy:
        names = {"token": caller.token, "baseUrl": proxy.url, "retries": 4}
        call = "print(await failure(() => client.account.tokensMake({ label: 'two' })));"
        (failed,) = run(SCRIPT + call, **names)
        assert failed[0] == "UnavailableError" and len(proxy.keys) == 1
    with Client(caller.token, world.base_url) as client:
        assert {"one", "two"} <= {each.label for each in client.account.tokens().tokens}


def test_the_command_line_says_it_in_a_sentence(
    world: Gateway,
    caller: Caller,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{caller.token}\n"))
    # Longer than a command waits.
    long = Away(503, {"retry-after": "61"})
    with FailingProxy(world.base_url, Away(502), long, Away(502), long) as proxy:
        with pytest.raises(SystemExit) as ended:
            main(["sign-in", proxy.url])
        assert ended.value.code == 1
        assert capsys.readouterr().err == f"Error: HTTP status 503 {LATER}\n"
