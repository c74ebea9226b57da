"""How much slower is a paid call of one account while unknown clients attack?

One caller calls one after the other: first alone, then during each attack of `attacks.py`. Shown
with the embedded engine, and with two workers on PostgreSQL. The attackers run on the same machine.
Limits: at most 3 times the p50 or 25 ms, 5 times the p99 or 120 ms, and 250 MiB for each worker,
and no worker may be replaced. While passwords are guessed, the owner must be able to sign in. An
attack that the gateway does not let have all its connections is marked as held off. Needs the tools
of the tests.
"""

import argparse
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, perf_counter
from typing import NamedTuple
from urllib.parse import urlencode

from bench.attacks import ADDRESS, SIGN_IN_PATH, Attack, attacks
from tests.support import engines
from tests.support.browsers import Browser
from tests.support.consent import PASSWORD, new_person
from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import new_caller
from tests.support.orders import OWNER, order, put_orders
from tests.support.owners import authorize, shop
from tests.support.stores import Store
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.orders.operation import ORDERS
from tollway.operations.product_analysis.demo import fill_figures, product_ids

QUIET_S = 1.5
ATTACKED_S = 4.0
# An attack that never has its full strength is measured all the same.
_PATIENCE_S = 30.0
# Of the measured client, used in turn: with several workers, they are not all with one of them.
_CONNECTIONS = 4
P50_MS, P99_MS, MEMORY_MIB = 25.0, 120.0, 250
_WORKERS = {"sqlite": 1, "postgresql": 2}


class World(NamedTuple):
    """A gateway, the call that is measured, the attacks on it, and an owner's login."""

    gateway: Gateway
    path: str
    token: str
    attacks: list[Attack]
    login: str


def make_world(folder: Path, engine: engines.Engine) -> World:
    engines.use(engine)
    store = Store(folder / f"{engine}.db")
    today = date.today()  # noqa: DTZ011 - any day will do that has passed everywhere
    store.do(lambda database: fill_figures(database, products=1, days=3, last=today))
    address = "幸福路" * 160 + "5栋三零二"
    put_orders(store, [order(f"sn-{n:06}", receiver_address=address[:500]) for n in range(100)])
    caller = new_caller(store, calls=1_000_000, rate_limit=1_000_000)
    free = new_caller(store, operations=OPERATIONS, kind="test")
    reader = new_caller(store, operations=(ORDERS,), credits_=1_000_000, rate_limit=100_000)
    store.do(lambda database: authorize(database, reader.account_id, ORDERS, shop(OWNER)))
    query = urlencode({"product_id": product_ids(1)[0], "query_date": today.isoformat()})
    login = new_person(store).login
    gateway = Gateway(store, workers=_WORKERS[engine])
    cookie, guess = wrong_guess(gateway, login)
    listed = attacks(free.token, reader.token, OWNER, cookie, guess)
    return World(gateway, f"{ANALYSIS}?{query}", caller.token, listed, login)


def wrong_guess(gateway: Gateway, login: str) -> tuple[str, dict[str, str]]:
    """What a browser sends with a wrong password: its cookies and its fields."""
    browser = Browser(gateway, ADDRESS)
    browser.open("/owner")
    cookie = "; ".join(f"{name}={value}" for name, value in browser.client.cookies.items())
    fields = {**browser.hidden(), "login": login, "password": "a wrong password"}
    browser.client.close()
    return cookie, fields


def can_sign_in(world: World) -> bool:
    browser = Browser(world.gateway)
    browser.open("/owner")
    answer = browser.send(SIGN_IN_PATH, login=world.login, password=PASSWORD)
    browser.client.close()
    return answer.status_code == 200


@contextmanager
def under(attack: Attack, port: int) -> Iterator[Callable[[], bool]]:
    """Attacks meanwhile; what is given says whether the attack has its full strength."""
    has_begun = multiprocessing.Event()
    process = multiprocessing.Process(
        target=attack.act, args=(port, has_begun, attack.sent, attack.connections)
    )
    process.start()
    try:
        yield has_begun.is_set
    finally:
        process.kill()
        process.join()


def _connection(world: World) -> HTTPConnection:
    return HTTPConnection("127.0.0.1", world.gateway.port, timeout=_PATIENCE_S)


def call_for(
    world: World, lasts_s: float, *, is_fresh: bool, has_begun: Callable[[], bool] = lambda: True
) -> list[float]:
    """How long each call took, in milliseconds: from the first moment until so long after an attack
    has begun."""
    taken, gives_up_at_s = [], monotonic() + _PATIENCE_S
    ends_at_s = None
    connections = [_connection(world) for _ in range(_CONNECTIONS)]
    while ends_at_s is None or monotonic() < ends_at_s:
        if ends_at_s is None and (has_begun() or monotonic() > gives_up_at_s):
            ends_at_s = monotonic() + lasts_s
        connection = connections[len(taken) % _CONNECTIONS]
        began_s = perf_counter()
        if is_fresh:
            # The next request connects again.
            connection.close()
        connection.request("GET", world.path, headers={"Authorization": f"Bearer {world.token}"})
        received = connection.getresponse().read()
        assert b'"code":0' in received, received
        taken.append((perf_counter() - began_s) * 1000)
    for connection in connections:
        connection.close()
    return sorted(taken)


def at(taken: list[float], part: float) -> float:
    return taken[int(len(taken) * part)]


def forget_peaks(gateway: Gateway) -> None:
    for pid in gateway.workers():
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mib(gateway: Gateway) -> int:
    """The most memory that one worker has taken since the peaks were forgotten."""
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in gateway.workers()]
    return max(int(text.partition("VmHWM:")[2].split()[0]) for text in texts) // 1024


def measure(world: World, attack: Attack) -> bool:
    """Prints one line; returns whether all limits are kept."""
    quiet = call_for(world, QUIET_S, is_fresh=attack.is_fresh)
    forget_peaks(world.gateway)
    workers = world.gateway.workers()
    with under(attack, world.gateway.port) as has_begun:
        attacked = call_for(world, ATTACKED_S, is_fresh=attack.is_fresh, has_begun=has_begun)
        is_let_in = attack.name[0] != "9" or can_sign_in(world)
        is_held_off = not has_begun()
    peak = peak_mib(world.gateway)
    p50, p99, p50_attacked, p99_attacked = (
        at(taken, part) for taken in (quiet, attacked) for part in (0.5, 0.99)
    )
    is_kept = (
        p50_attacked <= max(3 * p50, P50_MS)
        and p99_attacked <= max(5 * p99, P99_MS)
        and peak <= MEMORY_MIB
        and is_let_in
        and world.gateway.workers() == workers
    )
    figures = "".join(f"{each:10.2f}" for each in (p50, p99, p50_attacked, p99_attacked))
    verdict = ("kept" if is_kept else "OVER") + (", held off" if is_held_off else "")
    print(f"{attack.name:28}{figures}{peak:8}   {verdict}", flush=True)
    return is_kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", help="numbers of attacks, as in: 1 8")
    only = parser.parse_args().only
    are_kept = []
    with tempfile.TemporaryDirectory() as folder:
        for engine in engines.ENGINES:
            world = make_world(Path(folder), engine)
            columns = ("quiet p50", "p99", "under p50", "p99")
            title = f"{engine}, {_WORKERS[engine]} worker(s), ms"
            print(f"{title:28}" + "".join(f"{each:>10}" for each in columns) + "     MiB")
            try:
                for attack in world.attacks:
                    if not only or attack.name[0] in only:
                        are_kept.append(measure(world, attack))
            finally:
                world.gateway.stop()
    raise SystemExit(0 if all(are_kept) else "Not all limits were kept.")


if __name__ == "__main__":
    main()
