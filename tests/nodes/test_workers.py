"""One gateway of several worker processes."""

import ctypes
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest

from tests.support.forks import run
from tests.support.gateway import Gateway
from tests.support.ledger import Caller, new_caller
from tests.support.ports import free_port
from tests.support.stores import Store
from tollway.gateway.worker_group import WorkerGroup

DEADLINE_S = 30
WORKERS = 3


@pytest.fixture
def caller(own_store: Store) -> Caller:
    return new_caller(own_store, rate_limit=1_000_000)


@pytest.fixture
def gateway(own_store: Store) -> Iterator[Gateway]:
    with Gateway(own_store, workers=WORKERS) as started:
        yield started


def metrics(gateway: Gateway) -> str:
    """What any of the workers tells: the connection is a new one each time. Nothing if it was one
    that is just dying."""
    try:
        return httpx.get(f"{gateway.base_url}/metrics", timeout=DEADLINE_S).text
    except httpx.TransportError:
        return ""


def calls_by_worker(gateway: Gateway) -> Counter[str]:
    """How many successes each worker tells of."""
    text = metrics(gateway)
    counts: Counter[str] = Counter()
    for worker, count in re.findall(
        r'^tollway_calls_total\{.*reason="SUCCESS",worker="(\d)"\} ([\d.]+)$', text, re.MULTILINE
    ):
        counts[worker] += int(float(count))
    return counts


def shared_folder(gateway: Gateway) -> Path:
    """Where the workers of a gateway have their sockets."""
    held = set()
    for path in Path(f"/proc/{gateway.workers()[0]}/fd").iterdir():
        # The worker opens and closes others meanwhile.
        with suppress(FileNotFoundError):
            held.add(path.readlink().name)
    for line in Path("/proc/net/unix").read_text().splitlines():
        before, _, path = line.partition("/")
        if f"socket:[{before.split()[-1]}]" in held and path.endswith(".socket"):
            return Path(f"/{path}").parent
    raise AssertionError("a worker has no socket")


def wait_for(condition: object) -> None:
    deadline_s = monotonic() + DEADLINE_S
    while not condition():  # type: ignore[operator]
        assert monotonic() < deadline_s
        sleep(0.05)


def test_all_workers_answer_and_all_are_measured(
    gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    assert len(gateway.workers()) == WORKERS
    done = 0
    while len(calls_by_worker(gateway)) < WORKERS:
        # A connection of its own for each: the workers share the port, not the connections.
        with httpx.Client(base_url=gateway.base_url, timeout=DEADLINE_S) as client:
            gateway.client, kept = client, gateway.client
            assert gateway.get(token=caller.token, query=question).code == 0
            gateway.client = kept
        done += 1
        assert done < 90, "some worker gets no calls"
    # Whichever worker is asked tells of all of them, but for one that is silent for a second.
    wait_for(lambda: [calls_by_worker(gateway).total() for _ in range(6)] == [done] * 6)


def test_a_worker_that_is_killed_is_replaced_and_the_others_go_on(
    gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    before = gateway.workers()
    os.kill(before[1], signal.SIGKILL)
    wait_for(lambda: len(set(gateway.workers()) - {before[1]}) == WORKERS)
    assert {before[0], before[2]} < set(gateway.workers())
    wait_for(lambda: 'worker="2"' in metrics(gateway))
    assert gateway.get(token=caller.token, query=question).code == 0


def test_a_worker_is_replaced_though_the_temporary_files_were_cleared_away(
    gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    shutil.rmtree(shared_folder(gateway))
    dies = gateway.workers()[-1]
    os.kill(dies, signal.SIGKILL)
    wait_for(lambda: len(set(gateway.workers()) - {dies}) == WORKERS)
    # It says so in its own metrics, when it is the one that is asked.
    wait_for(lambda: f'worker="{WORKERS}"' in metrics(gateway))
    assert gateway.get(token=caller.token, query=question).code == 0


def test_all_workers_are_measured_again_after_temporary_files_were_cleared_away(
    gateway: Gateway,
) -> None:
    before = gateway.workers()
    shutil.rmtree(shared_folder(gateway))

    def measured() -> set[str]:
        return set(re.findall('worker="([0-9])"', metrics(gateway)))

    # Whichever worker is asked.
    wait_for(lambda: all(len(measured()) == WORKERS for _ in range(6)))
    assert gateway.workers() == before


def test_workers_serve_though_the_path_of_temporary_files_is_too_long_for_a_socket(
    own_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 25)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    with Gateway(own_store, workers=WORKERS) as gateway:
        wait_for(lambda: f'worker="{WORKERS}"' in metrics(gateway))


def test_a_worker_is_replaced_however_often_it_dies(gateway: Gateway) -> None:
    *others, dies = gateway.workers()
    for _ in range(3):
        os.kill(dies, signal.SIGKILL)
        # The newest is the last one, and has the number of the one that it replaces.
        wait_for(lambda: gateway.workers()[:-1] == others and gateway.workers()[-1] != dies)  # noqa: B023
        wait_for(lambda: f'worker="{WORKERS}"' in metrics(gateway))
        dies = gateway.workers()[-1]
    assert gateway.log().count("worker 3 ended with status -9, and is replaced") == 3


def test_a_worker_that_dies_ends_no_drain_and_makes_no_failure_of_a_stop(own_store: Store) -> None:
    gateway = Gateway(own_store, workers=2, drain_s=300)
    gateway.process.send_signal(signal.SIGTERM)
    wait_for(lambda: httpx.get(f"{gateway.base_url}/readyz").status_code == 503)
    dies, other = gateway.workers()
    os.kill(dies, signal.SIGKILL)
    wait_for(lambda: "Unexpected exit from worker-1" in gateway.log())
    assert other in gateway.workers()
    wait_for(lambda: 'worker="2"' in metrics(gateway))
    # A second signal says that there is no time for a drain.
    assert gateway.stop() == 0


@pytest.mark.sqlite
def test_a_worker_that_was_just_started_hears_a_stop_too(own_store: Store) -> None:
    for _ in range(3):
        # A worker that goes on would be killed long after this test has given up. That the server
        # says it kills one proves nothing: on a busy machine it does so of one that has just ended.
        gateway = Gateway(own_store, workers=WORKERS, shutdown_timeout_s=300)
        os.kill(gateway.workers()[0], signal.SIGKILL)
        while "is replaced" not in gateway.log():
            sleep(0.001)
        assert gateway.stop() == 0


@pytest.mark.sqlite
def test_a_stop_is_heeded_whichever_thread_the_system_interrupts(own_store: Store) -> None:
    gateway = Gateway(own_store)
    main = gateway.process.pid
    others = [each for each in Path(f"/proc/{main}/task").iterdir() if int(each.name) != main]
    # Some threads leave stops to others.
    takes_it = next(each for each in others if "SigBlk:\t0000000000000000" in _status(each))
    # Python runs its handlers in the main thread, which nothing wakes then.
    ctypes.CDLL(None).tgkill(main, int(takes_it.name), signal.SIGTERM)
    assert gateway.process.wait(timeout=DEADLINE_S) == gateway.stop() == 0


def _status(thread: Path) -> str:
    return (thread / "status").read_text()


@pytest.mark.sqlite
def test_a_worker_is_replaced_while_standard_error_takes_nothing(own_store: Store) -> None:
    unread, written = os.pipe()
    with open(written, "wb", buffering=0) as stderr:  # noqa: PTH123
        gateway = Gateway(own_store, stderr=stderr)
        os.set_blocking(written, False)
        with suppress(BlockingIOError):
            while os.write(written, b"\n"):
                pass
        os.set_blocking(written, True)
    # The first one has the main process log something. It forks the second replacement while a
    # thread of its own is within that write.
    for _ in range(2):
        (dies,) = gateway.workers()
        os.kill(dies, signal.SIGKILL)
        wait_for(lambda: gateway.workers() not in ([], [dies]))  # noqa: B023
        wait_for(lambda: "tollway_calls" in metrics(gateway))
    assert gateway.stop() == 0
    os.close(unread)


@pytest.mark.sqlite
@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_stop_between_the_start_of_a_worker_and_its_listening_is_heeded(
    own_store: Store, number: str
) -> None:
    gateway = run(
        *("tests.support.stopped_start", number, "serve", "--port", str(free_port())),
        env={**os.environ, **own_store.settings},
        cwd=own_store.path.parent,
        # A worker that goes on is killed after 30 seconds.
        timeout=20,
    )
    # On a busy machine the server says of a worker that has just ended that it kills it.
    others = [line for line in gateway.stderr.splitlines() if "Killing worker" not in line]
    assert (gateway.returncode, others) == (0, [])


@pytest.mark.sqlite
def test_a_worker_that_dies_before_it_greets_leaves_that_to_the_next() -> None:
    group = WorkerGroup(2, "")
    assert [group.completes_start(number) for number in (1, 2)] == [False, True]
    # It died, and both are started once more.
    assert group.completes_start(2) and group.completes_start(1)
    assert [group.serves(), group.serves()] == [True, False]
    assert not group.completes_start(2)


def test_the_greeting_comes_once(gateway: Gateway) -> None:
    os.kill(gateway.workers()[0], signal.SIGKILL)
    wait_for(lambda: 'worker="1"' in metrics(gateway))
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.stdout is not None
    # Its first line was read when the gateway was started.
    assert "Tollway is serving on" not in gateway.process.stdout.read()


@pytest.mark.postgresql
def test_connections_are_as_many_as_the_setting_says(
    own_store: Store, caller: Caller, question: dict[str, str]
) -> None:
    gateway = Gateway(own_store, workers=2, database_connections=2)
    try:
        for _ in range(20):
            assert gateway.get(token=caller.token, query=question).code == 0
        ((connections,),) = own_store.run(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tollway' "
            "AND datname = current_database()"
        )
        # And one that listens, in each worker.
        assert 2 <= connections <= 2 * (2 + 1)
    finally:
        assert gateway.stop() == 0
