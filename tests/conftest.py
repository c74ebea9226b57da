"""What most tests share: one gateway with figures, started once."""

import asyncio
import gc
import inspect
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.constants_ast import constants_from_module

import tollway
from tests.support.authorities import load_authorities_once
from tests.support.engines import ENGINES, Engine, use
from tests.support.fake_carrier import FakeCarrier
from tests.support.figures import store_with_figures
from tests.support.forks import share
from tests.support.gateway import Gateway
from tests.support.in_loop import InLoop
from tests.support.known_types import know_types
from tests.support.ledger import Caller, new_caller
from tests.support.passwords import use_cheap_passwords
from tests.support.postgresql import databases_of, drop
from tests.support.scheduling import EngineScheduling, ShortReports
from tests.support.server_files import use_memory
from tests.support.stores import Store
from tollway.operations.product_analysis.demo import product_ids
from tollway.store.open import OpenDatabase

PRODUCT = product_ids(1)[0]
ZONE = ZoneInfo("Asia/Shanghai")
# What a test takes on a slow day, of a whole run.
_A_TEST_S = 0.2
_TESTS = Path(__file__).parent
# Folders and files where no engine matters.
_ALONE = {
    "contract",
    "docs",
    "test_addresses.py",
    "test_bodies_unread.py",
    "test_body_budget.py",
    "test_breaker.py",
    "test_charge_batcher.py",
    "test_charge_queue.py",
    "test_charge_queue_timeouts.py",
    "test_charge_queue_waits.py",
    "test_connector.py",
    "test_drift.py",
    "test_fake_carrier.py",
    "test_formats.py",
    "test_hostile_carrier.py",
    "test_labels.py",
    "test_lines_check.py",
    "test_openapi.py",
    "test_divisions.py",
    "test_protocols.py",
    "test_push_costs.py",
    "test_read_cache.py",
    "test_smuggling.py",
    "test_spreadsheet_limits.py",
    "test_streams.py",
    "test_throttle.py",
    "test_token_format.py",
    "test_units.py",
    "test_webhook_signatures.py",
    "test_wording.py",
}
# Processes that are started in other folders must run the very code that is tested here.
os.environ["PYTHONPATH"] = str(Path(tollway.__file__).resolve().parents[1])
# No test speaks TLS to the world, and every HTTP client would load all authorities again.
os.environ["SSL_CERT_DIR"] = str(_TESTS)
os.environ.pop("SSL_CERT_FILE", None)
# Nor to its own PostgreSQL, unless it says so: each connection would prepare for it first.
os.environ["PGSSLMODE"] = "disable"
use_cheap_passwords()
load_authorities_once()
know_types()

# No deadline per example: on a shared machine it would measure the neighbours.
# On a busy machine an example may take long to make; that is no fault of the code under test.
settings.register_profile(
    "tollway", deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", deadline=None, max_examples=5000)
# For who only wants to know that it fails: the shortest example may take minutes to find.
settings.register_profile(
    "any_failure", settings.get_profile("tollway"), phases=[Phase.generate], database=None
)
settings.load_profile("tollway")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--engine", choices=ENGINES, help="run the tests on one engine only")


class DatabasesOfTests:
    """Drops each database with what made it.

    A plugin of its own: pytest does not ask this file about fixtures of a whole session.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        made: list[str] = []
        # Registered before its own, and therefore run after it.
        fixturedef.addfinalizer(partial(drop, made))
        with databases_of(made):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        """Those that a test makes itself go when all of its fixtures are over."""
        made: list[str] = []
        with databases_of(made):
            result = yield
        drop(made)
        return result


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(DatabasesOfTests())
    # Who asks how long tests took needs all reports.
    if hasattr(config, "workerinput") and config.option.durations is None:
        config.pluginmanager.register(ShortReports())
    # Before the processes that run the tests are started.
    if config.getoption("numprocesses", None):
        share()
    # Campaigns may fill a disk.
    if config.option.markexpr == "not torture":
        use_memory()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that may have a database runs on both engines, unless it is about one of them."""
    only: Engine | None = metafunc.config.getoption("engine")
    engines: Sequence[Engine] = ENGINES
    if metafunc.definition.get_closest_marker("sqlite") or _ALONE.intersection(
        metafunc.definition.path.relative_to(_TESTS).parts
    ):
        engines = ("sqlite",)
    elif metafunc.definition.get_closest_marker("postgresql"):
        engines = ("postgresql",)
    chosen = [engine for engine in engines if only in (None, engine)]
    metafunc.parametrize("engine", chosen, indirect=True, scope="session")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Lets the day end first if the tests might still run then: gateways go by the clock."""
    # All that was collected stays: it is not looked through for garbage again and again.
    gc.collect()
    gc.freeze()
    gc.enable()
    now = datetime.now(ZONE)
    midnight = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), ZONE)
    left_s = (midnight - now).total_seconds()
    if left_s < len(session.items) * _A_TEST_S:
        sys.stderr.write(f"The tests begin after midnight in {ZONE}, in {left_s:.0f} s.\n")
        time.sleep(left_s)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Has the processes of a run do once, and not each for itself, what a fresh clone lacks: to
    compile the tests, and to look through the sources. Each begins with others, and finds the rest
    done."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    # Until all tests are collected: hardly anything of what is made for them is garbage.
    gc.disable()
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    asked = [Path(each).resolve() for each in session.config.args]
    files = sorted(file for each in asked for file in each.rglob("test_*.py"))
    for file in files[number::count]:
        # Whether it fails or skips itself is seen when its tests are collected.
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(file.relative_to(_TESTS.parent).with_suffix("").parts))
    # Hypothesis looks through the sources for constants to try, and keeps what it found as well.
    sources = sorted(each for each in sys.modules if each.partition(".")[0] == tollway.__name__)
    for source in sources[number::count]:
        constants_from_module(sys.modules[source])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> EngineScheduling:
    return EngineScheduling(config, log)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine function in an event loop of its own; one of its fixtures may
    be of that loop."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    values = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    of_loop = [name for name, value in values.items() if isinstance(value, InLoop)]
    if of_loop:
        (name,) = of_loop
        values.pop(name).run(lambda value: test(**values, **{name: value}))
    else:
        asyncio.run(test(**values))
    return True


@pytest.fixture(scope="session", autouse=True)
def engine(request: pytest.FixtureRequest) -> Engine:
    """The engine that the stores of this test are on."""
    chosen: Engine = request.param
    use(chosen)
    return chosen


@pytest.fixture(scope="session")
def today() -> date:
    return datetime.now(ZONE).date()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory, today: date, engine: Engine) -> Store:
    path = tmp_path_factory.mktemp("gateway") / "tollway.db"
    return store_with_figures(path, today, products=2, days=40)


@pytest.fixture
def database(store: Store) -> InLoop[OpenDatabase]:
    return InLoop(store.do)


@pytest.fixture(scope="session")
def gateway(store: Store) -> Iterator[Gateway]:
    started = Gateway(store)
    yield started
    assert started.stop() == 0


@pytest.fixture
def caller(store: Store) -> Caller:
    return new_caller(store)


@pytest.fixture(scope="session")
def question(today: date) -> dict[str, str]:
    """A request that succeeds."""
    return {"product_id": PRODUCT, "query_date": today.isoformat()}


@pytest.fixture
def own_store(tmp_path: Path, today: date) -> Store:
    """A database for one test alone, for those that break or stop things."""
    return store_with_figures(tmp_path / "tollway.db", today)


@pytest.fixture
def own_database(own_store: Store) -> InLoop[OpenDatabase]:
    return InLoop(own_store.do)


@pytest.fixture
def nodes(own_store: Store) -> Iterator[list[Gateway]]:
    """Two gateways where the engine has them, otherwise one."""
    started = [Gateway(own_store) for _ in range(2 if own_store.is_shared else 1)]
    yield started
    assert {node.stop() for node in started} == {0}


@pytest.fixture
def carrier(tmp_path: Path) -> Iterator[FakeCarrier]:
    started = FakeCarrier(tmp_path)
    yield started
    assert started.stop() == 0
