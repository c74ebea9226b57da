"""A real cluster under load: etcd, two PostgreSQL servers under Patroni, HAProxy, two gateways.

All five operations are called while the primary is killed, switched over and cut off, and while a
gateway is cut off. Every call has an Idempotency-Key and is repeated until it is acknowledged: at
the end each must be in the ledger once, with its price. Takes about four minutes for each version
of PostgreSQL.
"""

import asyncio
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
import pytest

from tests.deploy.proxies import proxy
from tests.support.all_operations import all_operations_caller, good_request, small_world
from tests.support.gateway import Gateway
from tests.support.ledger import Caller
from tests.support.outage import Experience
from tests.support.postgresql import run_on
from tests.support.server_files import BIN
from tests.support.stores import Store
from tests.support.waybills import load_numbers
from tests.torture.cluster import PACKAGES, Cluster
from tollway.audit.report import audit
from tollway.contract.operation import Encoding, Operation, Unit
from tollway.ledger.entries import entries_of_request
from tollway.ledger.runtime import Runtime
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.waybills.demo import WP_CODE
from tollway.store.database import Database

_MISSING = [
    f"{program} is missing: apt install {package}"
    for program, package in PACKAGES.items()
    if shutil.which(program) is None
]
pytestmark = [
    pytest.mark.torture,
    pytest.mark.postgresql,
    pytest.mark.skipif(bool(_MISSING), reason="; ".join(_MISSING)),
]

_PROGRAMS = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), BIN]
CALLERS = 6
AMOUNT = 10_000_000
_BEFORE_S = _AFTER_S = 3.0
_PAUSE_S = 0.02
_CUT_OFF_S = 8.0
_ANSWER_S = 30.0
# In any scene the cluster needs about ttl + loop_wait; the machine may be busy.
_OUT_S = 60.0
# No node was there that could answer.
_NO_NODE = -1
_keys = count()


class _Campaign:
    """Callers behind a load balancer, and which of their calls were acknowledged."""

    def __init__(self, store: Store, today: date) -> None:
        small_world(store, today)
        load_numbers(store, WP_CODE, (f"YT{7_000_000_000_000 + n}" for n in range(50_000)))
        self._store = store
        self._today = today
        changes = {"calls": AMOUNT, "credits_": AMOUNT, "rate_limit": 100_000}
        self._callers = [all_operations_caller(store, **changes) for _ in range(CALLERS)]
        self.acknowledged: dict[str, Operation] = {}
        self.url = ""

    def goes_through(self, scene: str, happening: Callable[[], None]) -> str:
        """Calls while something happens; gives a line about it."""
        experience = Experience()
        asyncio.run(self._call_during(happening, experience))
        self.assert_nothing_was_lost()
        outage_s, codes = experience.outage_s(), dict(experience.codes)
        assert set(codes) <= {0, 101, 202, _NO_NODE}, codes
        assert outage_s < _OUT_S, scene
        return (
            f"{scene}: {codes.pop(0)} acknowledged, no success for {outage_s:.1f} s, "
            f"refused {codes}, broken {experience.broken}"
        )

    async def _call_during(self, happening: Callable[[], None], experience: Experience) -> None:
        is_over = asyncio.Event()
        limits = httpx.Limits(max_connections=CALLERS)
        async with (
            httpx.AsyncClient(base_url=self.url, timeout=_ANSWER_S, limits=limits) as client,
            asyncio.TaskGroup() as group,
        ):
            for caller in self._callers:
                group.create_task(self._call_on(client, caller, is_over, experience))
            await asyncio.sleep(_BEFORE_S)
            try:
                await asyncio.to_thread(happening)
                await asyncio.sleep(_AFTER_S)
            finally:
                is_over.set()

    async def _call_on(
        self,
        client: httpx.AsyncClient,
        caller: Caller,
        is_over: asyncio.Event,
        experience: Experience,
    ) -> None:
        while not is_over.is_set():
            for operation in OPERATIONS:
                await self._call_until_acknowledged(client, caller, operation, experience)
                # The cluster needs some of the cores, too.
                await asyncio.sleep(_PAUSE_S)

    async def _call_until_acknowledged(
        self,
        client: httpx.AsyncClient,
        caller: Caller,
        operation: Operation,
        experience: Experience,
    ) -> None:
        request = _request(client, operation, caller, good_request(operation, self._today))
        while True:
            began_s, code, paid = monotonic(), _NO_NODE, ""
            try:
                answer = await client.send(request)
            except httpx.TransportError:
                experience.broken += 1
            else:
                if answer.headers.get("content-type", "").startswith("application/json"):
                    code = answer.json()["code"]
                    paid = answer.headers.get("x-replay-of") or answer.headers["x-request-id"]
                experience.answers.append((monotonic(), code, monotonic() - began_s))
            if code == 0:
                assert paid not in self.acknowledged, "acknowledged for another call, too"
                self.acknowledged[paid] = operation
                return
            await asyncio.sleep(_PAUSE_S)

    def assert_nothing_was_lost(self) -> None:
        """Each acknowledged call was charged once, nothing else was, and the audit is clean."""

        async def work(database: Database) -> None:
            assert (await audit(database, Runtime().at_ms())).breaches == []
            for request_id, operation in self.acknowledged.items():
                entries = await entries_of_request(database, request_id)
                price = 1 if operation.unit is Unit.CALLS else operation.default_price
                assert [each.amount for each in entries] == [-price], request_id

        self._store.do(work)

    def assert_all_charges_are_known(self, url: str) -> None:
        """No call was charged but those that were acknowledged."""
        ((charged,),) = run_on(url, "SELECT count(*) FROM entry WHERE amount < 0")
        assert charged == len(self.acknowledged)

    def assert_a_lost_entry_is_noticed(self, url: str) -> None:
        """The control: an entry is deleted, as if its commit had been lost."""
        lost = list(self.acknowledged)[-1]
        run_on(url, f"DELETE FROM entry WHERE request_id = '{lost}'")
        with pytest.raises(AssertionError):
            self.assert_nothing_was_lost()


def _request(
    client: httpx.AsyncClient, operation: Operation, caller: Caller, sent: dict[str, Any]
) -> httpx.Request:
    headers = {
        "Authorization": f"Bearer {caller.token}",
        "Idempotency-Key": f"call-{next(_keys)}",
    }
    method = "GET" if operation.encoding is Encoding.QUERY else "POST"
    as_what = {Encoding.QUERY: "params", Encoding.FORM: "data"}.get(operation.encoding, "json")
    given: dict[str, Any] = {as_what: sent}
    return client.build_request(method, operation.path, headers=headers, **given)


@contextmanager
def _stopped(gateway: Gateway) -> Iterator[None]:
    pids = (gateway.process.pid, *gateway.workers())
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("programs", _PROGRAMS, ids=lambda path: path.parent.name)
def test_nothing_is_lost_or_charged_twice_in_a_cluster(
    tmp_path: Path, today: date, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def tell(line: str) -> None:
        with capsys.disabled():
            print(line, flush=True)  # noqa: T201

    with ExitStack() as running:
        cluster = Cluster(programs)
        running.callback(cluster.remove)
        store = Store(tmp_path / "tollway.db", cluster.url)
        campaign = _Campaign(store, today)
        gateways = [Gateway(store) for _ in range(2)]
        for gateway in gateways:
            running.callback(lambda each=gateway: each.process.poll() is None and each.kill())
        ports = [gateway.port for gateway in gateways]
        campaign.url = running.enter_context(proxy("haproxy", ports, tmp_path))
        ((version,),) = run_on(cluster.url_of(cluster.leader()), "SHOW server_version")
        tell(f"\nPostgreSQL {version}, {'with' if cluster.is_encrypted else 'without'} TLS")
        for line in _scenes(cluster, campaign, gateways):
            tell(line)
        calls = Counter(each.name for each in campaign.acknowledged.values())
        tell(f"{calls.total()} in all: {dict(calls)}")
        assert set(calls) == {each.name for each in OPERATIONS}
        url = cluster.url_of(cluster.leader())
        campaign.assert_all_charges_are_known(url)
        campaign.assert_a_lost_entry_is_noticed(url)
        assert [gateway.stop() for gateway in gateways] == [0, 0]


def _scenes(cluster: Cluster, campaign: _Campaign, gateways: list[Gateway]) -> Iterator[str]:
    def kill() -> None:
        first = cluster.leader()
        first.kill()
        cluster.wait_until_leading(cluster.other(first))
        first.start()
        cluster.wait_until_whole()

    def switch_over() -> None:
        first = cluster.leader()
        first.switch_over(cluster.other(first).name)
        cluster.wait_until_leading(cluster.other(first))
        cluster.wait_until_whole()

    def cut_off() -> None:
        first = cluster.leader()
        with first.cut_off():
            cluster.wait_until_leading(cluster.other(first))
            # One that comes back while the other is being promoted is another story: then Patroni
            # may be left with two histories and no standby, and no call succeeds.
            sleep(_CUT_OFF_S)
        cluster.wait_until_whole()

    def cut_off_gateway() -> None:
        with _stopped(gateways[0]):
            # Longer than the balancer needs to notice it.
            sleep(_CUT_OFF_S)

    processes = [gateway.workers() for gateway in gateways]
    yield campaign.goes_through("primary killed", kill)
    yield campaign.goes_through("switched over", switch_over)
    yield campaign.goes_through("primary cut off", cut_off)
    yield campaign.goes_through("gateway cut off", cut_off_gateway)
    assert [gateway.workers() for gateway in gateways] == processes, "by the very same processes"
