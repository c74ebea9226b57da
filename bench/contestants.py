"""The servers that `make bench` compares: the gateway on both engines, and its peers."""

import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple, Protocol, TypeVar

from bench.cost_databases import DURABLE, main_process
from bench.peers import fastapi_peer, nginx
from bench.peers.answers import Answer, Asker, Data, read_answers
from bench.peers.bare import bare_request, start_bare
from bench.scenarios import SCENARIOS, Amounts, Scenario
from bench.servers import SERVER_CORES, free_port, move_to, start, stop
from bench.world import Size, World, make_world
from tests.support.postgresql import Server, run_on

_TRIES = 100


class Peer(Protocol):
    """Another server with the same data."""

    port: int

    @property
    def pids(self) -> list[int]: ...

    def stop(self) -> None: ...


Running = TypeVar("Running", bound=Peer)


class Contestant(NamedTuple):
    """A server that answers, and how its requests look."""

    name: str
    title: str
    port: int
    pids: list[int]
    database_pids: list[int]
    requests: Callable[[Scenario], list[bytes]]
    # A call takes so long that a slice of time has too few, and turns make no difference.
    is_slow: bool = False


class Gateway:
    """The gateway on one database, made and filled for this run."""

    def __init__(self, folder: Path, url: str, size: Size) -> None:
        folder.mkdir()
        files = {"TOLLWAY_KEY_FILE": folder / "keys", "TOLLWAY_SECRET_FILE": folder / "secret"}
        self.world = make_world(url, str(files["TOLLWAY_KEY_FILE"]), size)
        self.port = free_port()
        environment = {
            "TOLLWAY_DATABASE": url,
            # So that wrk can count refusals.
            "TOLLWAY_HTTP_STATUS": "mapped",
            **{name: str(path) for name, path in files.items()},
        }
        command = [sys.executable, "-m", "tollway", "serve", "--port", str(self.port)]
        self._process = start(command, self.port, folder, folder / "gateway.log", environment)

    @property
    def pids(self) -> list[int]:
        return [self._process.pid]

    def stop(self) -> None:
        stop(self._process)


class Field:
    """Everything that takes part. What could not start is in `missing`."""

    def __init__(self, folder: Path, size: Size) -> None:
        self._folder = folder
        self._running: list[Peer] = []
        self.missing: list[str] = []
        self.contestants: list[Contestant] = []
        self._postgresql = Server(**DURABLE)
        try:
            self._start(size)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for each in reversed(self._running):
            each.stop()
        self._postgresql.remove()

    def _start(self, size: Size) -> None:
        url = self._postgresql.url
        database = [main_process(url)]
        move_to(database[0], {int(SERVER_CORES)})
        _say("filling SQLite")
        embedded = self._run(Gateway(self._folder / "sqlite", self._sqlite_url("sqlite"), size))
        _say("filling PostgreSQL")
        shared = self._run(Gateway(self._folder / "shared", self._new_database("gateway"), size))
        _say("reading what the peers answer")
        self.data: Data = read_answers(embedded.port, embedded.world)
        self.orders = len(self.data.orders)
        self._add_bare(embedded)
        self._add("sqlite", "Tollway, SQLite", embedded, embedded.world, [])
        self._add("postgresql", "Tollway, PostgreSQL", shared, shared.world, database)
        self._add_nginx(embedded.world)
        self._add_fastapi(embedded.world, database)
        # What filling leaves for later is not a call's.
        run_on(url, "VACUUM")
        run_on(url, "CHECKPOINT")

    def _add_bare(self, gateway: Gateway) -> None:
        answers = {
            f"/{each.name}": answer_of(gateway, each, self.data.amounts) for each in SCENARIOS
        }
        port, process = start_bare(self._folder, answers)
        world = gateway.world

        def requests(scenario: Scenario) -> list[bytes]:
            asked = scenario.requests(world, self.data.amounts)
            return [bare_request(each, f"/{scenario.name}") for each in asked]

        self._running.append(Started(port, process))
        self.contestants.append(
            Contestant("bare", "bare server", port, [process.pid], [], requests)
        )

    def _add_nginx(self, world: World) -> None:
        if found := nginx.missing_tools():
            self.missing += [f"{nginx.TITLE} was left out; it needs {each}" for each in found]
            return
        _say(f"filling {nginx.TITLE}")
        folder = self._folder / "nginx"
        folder.mkdir()
        peer = self._run(nginx.NginxPeer(folder, world, self.data))
        self._add("nginx", nginx.TITLE, peer, world, [])

    def _add_fastapi(self, world: World, database: list[int]) -> None:
        title = fastapi_peer.TITLE
        if found := fastapi_peer.missing_tools():
            self.missing += [f"{title} was left out; it needs {each}" for each in found]
            return
        _say(f"filling {title}")
        shared_url = self._new_database("fastapi")
        for name, engine, url, pids in (
            ("fastapi_sqlite", "SQLite", self._sqlite_url("fastapi"), []),
            ("fastapi_postgresql", "PostgreSQL", shared_url, database),
        ):
            peer = self._run(fastapi_peer.FastApiPeer(self._folder, url, world, self.data))
            self._add(name, f"{title}, {engine}", peer, world, pids, is_slow=True)

    def _add(
        self,
        name: str,
        title: str,
        peer: Peer,
        world: World,
        database_pids: list[int],
        *,
        is_slow: bool = False,
    ) -> None:
        def requests(scenario: Scenario) -> list[bytes]:
            return scenario.requests(world, self.data.amounts)

        self.contestants.append(
            Contestant(name, title, peer.port, peer.pids, database_pids, requests, is_slow)
        )

    def _run(self, peer: Running) -> Running:
        self._running.append(peer)
        return peer

    def _new_database(self, name: str) -> str:
        url = self._postgresql.url
        run_on(url, f"CREATE DATABASE {name}")
        return url.removesuffix("/postgres") + f"/{name}"

    def _sqlite_url(self, name: str) -> str:
        return f"sqlite:///{self._folder / f'{name}.db'}"


class Started:
    """A server that is only a process."""

    def __init__(self, port: int, process: Popen[bytes]) -> None:
        self.port, self._process, self.pids = port, process, [process.pid]

    def stop(self) -> None:
        stop(self._process)


def answer_of(gateway: Gateway, scenario: Scenario, amounts: Amounts) -> Answer:
    """An answer of the kind that is measured: of a limit, the first calls are answered."""
    asker = Asker(gateway.port)
    request = scenario.requests(gateway.world, amounts)[0]
    for _ in range(_TRIES):
        answer = asker.ask(request)
        if answer.status == scenario.status:
            asker.close()
            return answer
    raise SystemExit(f"{scenario.title}: {answer.status} {answer.body.decode()}")


def _say(what: str) -> None:
    print(f"… {what}", file=sys.stderr, flush=True)
