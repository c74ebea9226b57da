"""Backup and audit of a gateway that is under load, and a gateway on what was restored."""

import asyncio
import json
import signal
import threading
from collections.abc import Sequence

import pytest

from tests.cli.conftest import Answer, Command
from tests.support.books import Caller, calls_left, new_caller
from tests.support.gateway import Gateway
from tests.support.load import Told, assert_books_hold, call_until_cut_off
from tests.support.stores import Store

CALLS = 1_000_000
BEFORE = 300


@pytest.fixture
def caller(own_store: Store) -> Caller:
    return new_caller(own_store, calls=CALLS, rate_limit=1_000_000)


def run_under_load(
    store: Store,
    caller: Caller,
    question: dict[str, str],
    run: Command,
    commands: Sequence[Sequence[str]],
) -> tuple[Told, list[Answer]]:
    """Runs commands while clients call without a pause; the first begins after BEFORE answers."""
    gateway = Gateway(store)
    answers: list[Answer] = []

    def work() -> None:
        try:
            answers.extend(run(*command, "--database", store.url) for command in commands)
        finally:
            gateway.process.send_signal(signal.SIGTERM)

    thread = threading.Thread(target=work)
    told = asyncio.run(
        call_until_cut_off(
            gateway, caller.token, question, clients=8, after=BEFORE, then=thread.start
        )
    )
    thread.join()
    assert gateway.stop() == 0
    assert set(told.codes) == {0}
    return told, answers


@pytest.mark.sqlite  # A shared database is copied with its own tools.
def test_a_copy_made_under_load_is_restored_and_served(
    process: Command, own_store: Store, caller: Caller, question: dict[str, str]
) -> None:
    copy = own_store.path.with_name("copy.db")
    told, (made,) = run_under_load(
        own_store, caller, question, process, [("backup", str(copy), "--with-keys")]
    )
    assert (made.status, made.err) == (0, "")
    restored = own_store.path.with_name("again.db")
    answer = process("restore", str(copy), "--database", f"sqlite:///{restored}", "--json")
    assert (answer.status, answer.err) == (0, ""), answer
    again = Store(restored)
    # All that was acknowledged before the copy began is in it, and it has a part of the rest.
    assert_books_hold(again, told.acknowledged[:BEFORE])
    charged = CALLS - calls_left(again, caller)
    assert BEFORE <= charged < len(told.acknowledged)
    gateway = Gateway(again)
    assert gateway.get(token=caller.token, query=question).code == 0
    assert gateway.stop() == 0
    assert calls_left(again, caller) == CALLS - charged - 1
    # The control: what was acknowledged after the copy is not in it, and is missed.
    with pytest.raises(AssertionError, match=told.acknowledged[-1]):
        assert_books_hold(again, told.acknowledged[-1:])


def test_an_audit_under_load_comes_out_clean(
    process: Command, own_store: Store, caller: Caller, question: dict[str, str]
) -> None:
    told, answers = run_under_load(own_store, caller, question, process, [("audit", "--json")] * 3)
    reports = [json.loads(answer.out) for answer in answers]
    assert [(answer.status, answer.err) for answer in answers] == [(0, "")] * 3
    # They saw the books grow.
    entries = [report["entries"] for report in reports]
    assert BEFORE < entries[0] < entries[1] < entries[2] <= len(told.acknowledged) + 1
