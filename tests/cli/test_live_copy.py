"""Backup and audit of a gateway that is under load, and a gateway on what was restored."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import pytest

from tests.cli.conftest import Answer, Command
from tests.support.gateway import Gateway
from tests.support.ledger import Caller, calls_left, new_caller
from tests.support.load import LoadResult, assert_ledger_adds_up, call_until_cut_off
from tests.support.stores import Store

CALLS = 1_000_000
BEFORE = 300
DEADLINE_S = 60


@pytest.fixture
def caller(own_store: Store) -> Caller:
    return new_caller(own_store, calls=CALLS, rate_limit=1_000_000)


def run_under_load(
    store: Store,
    caller: Caller,
    question: dict[str, str],
    commands: Callable[[], Iterable[Answer]],
) -> tuple[LoadResult, list[Answer]]:
    """Runs commands while clients call without a pause; the first begins after BEFORE answers."""
    gateway = Gateway(store)
    answers: list[Answer] = []

    def work() -> None:
        try:
            answers.extend(commands())
        finally:
            gateway.process.send_signal(signal.SIGTERM)

    thread = threading.Thread(target=work)
    load = asyncio.run(
        call_until_cut_off(
            gateway, caller.token, question, clients=8, after=BEFORE, then=thread.start
        )
    )
    thread.join()
    assert gateway.stop() == 0
    assert set(load.codes) == {0}
    return load, answers


@pytest.mark.sqlite  # A shared database is copied with its own tools.
def test_a_copy_made_under_load_is_restored_and_served(
    process: Command, own_store: Store, caller: Caller, question: dict[str, str]
) -> None:
    copy = own_store.path.with_name("copy.db")
    backup = ("backup", str(copy), "--with-keys", "--database", own_store.url)
    load, (made,) = run_under_load(own_store, caller, question, lambda: [process(*backup)])
    assert (made.status, made.err) == (0, "")
    restored = own_store.path.with_name("again.db")
    answer = process("restore", str(copy), "--database", f"sqlite:///{restored}", "--json")
    assert (answer.status, answer.err) == (0, ""), answer
    again = Store(restored)
    # All that was acknowledged before the copy began is in it, and it has a part of the rest.
    assert_ledger_adds_up(again, load.acknowledged[:BEFORE])
    charged = CALLS - calls_left(again, caller)
    assert BEFORE <= charged < len(load.acknowledged)
    gateway = Gateway(again)
    assert gateway.get(token=caller.token, query=question).code == 0
    assert gateway.stop() == 0
    assert calls_left(again, caller) == CALLS - charged - 1
    # The control: what was acknowledged after the copy is not in it, and is missed.
    with pytest.raises(AssertionError, match=load.acknowledged[-1]):
        assert_ledger_adds_up(again, load.acknowledged[-1:])


def test_an_audit_under_load_comes_out_clean(
    process: Command, own_store: Store, caller: Caller, question: dict[str, str]
) -> None:
    def audits() -> Iterator[Answer]:
        """Until the ledger has grown twice: a busy machine may delay the clients."""
        seen: set[int] = set()
        deadline_s = time.monotonic() + DEADLINE_S
        while len(seen) < 3 and time.monotonic() < deadline_s:
            answer = process("audit", "--json", "--database", own_store.url)
            yield answer
            seen.add(answer.json["entries"])

    load, answers = run_under_load(own_store, caller, question, audits)
    assert {(answer.status, answer.err) for answer in answers} == {(0, "")}
    entries = [answer.json["entries"] for answer in answers]
    assert entries == sorted(entries) and len(set(entries)) == 3
    assert entries[0] > BEFORE and entries[-1] <= len(load.acknowledged) + 1
