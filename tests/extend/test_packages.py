"""The two packages of docs/extend.md: built, installed into a fresh environment, and called."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.docs.likeness import is_like
from tests.docs.pages import ROOT, examples_of
from tests.extend.environment import (
    PAGE,
    Environment,
    InstalledGateway,
    files_of_page,
    install_commands,
)
from tests.support import forks
from tests.support.browsers import Browser
from tests.support.consent import PASSWORD
from tests.support.engines import Engine
from tests.support.gateway import Gateway, Reply
from tests.support.ledger import RUNTIME, Caller, credits_left, new_caller
from tests.support.orders import order, put_orders, sealer_of
from tests.support.owners import shop
from tests.support.receipts import receipt_of
from tests.support.remote import eventually, ledger_of
from tests.support.stores import Store
from tests.support.waybills import PRICE, issue, new_customer, request
from tollway.carriers.carrier_links import CarrierLink, connect
from tollway.carriers.carriers import add_carrier
from tollway.consent.grants import GrantRequest, give_grant
from tollway.consent.owners import Owner, add_owner
from tollway.contract.operation import OwnerKind
from tollway.demo.owners import SHOP
from tollway.ledger.entries import top_up
from tollway.ledger.permissions import Permission, add_permission
from tollway.store.database import Database

pytestmark = pytest.mark.skipif(not shutil.which("bash"), reason="the page needs bash")
NAME, PATH, SCOPE = "orders_per_day", "/papi/tool/erps/orders-per-day", "order_counts"
CREDITS = 1000
SECRET = "courier-canary"
EMPTY_SHOP = shop("no-orders")
_numbers = count(1)


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    made = Environment(tmp_path_factory.mktemp("extended"))
    packages = [each.removeprefix("pip install --quiet ") for each in install_commands()]
    assert packages == ["./orders-per-day", "./courier-json"]
    made.install(*packages)
    (made.folder / "courier.secret").write_text(SECRET)
    yield made
    shutil.rmtree(made.folder)


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Store:
    """A store with two shops; one of them had an order today, and two yesterday."""
    made = Store(tmp_path_factory.mktemp("store") / "tollway.db")
    now_ms = int(time.time() * 1000)
    times = (now_ms, now_ms - 86_400_000, now_ms - 86_400_000)
    put_orders(made, [order(f"SN{n:08d}", confirm_time=at) for n, at in enumerate(times)])

    async def work(database: Database) -> None:
        for owner in (Owner(OwnerKind.SHOP, SHOP.id, SHOP.name, None, "qinghe", 0), EMPTY_SHOP):
            await add_owner(database, RUNTIME, owner, PASSWORD)

    made.do(work)
    return made


@pytest.fixture(scope="module")
def served(environment: Environment, extended: Store) -> Iterator[Gateway]:
    started = InstalledGateway(environment, extended, reconcile_interval_s=1)
    yield started
    assert started.stop() == 0


@pytest.fixture(scope="module")
def courier() -> Iterator[str]:
    """The address of a courier that runs."""
    file = Path(__file__).parent / "courier.py"
    with subprocess.Popen(
        [sys.executable, file, SECRET], stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()


@pytest.fixture
def wp_code(extended: Store, courier: str) -> str:
    """A carrier of its own for each test, so that breakers do not carry over."""
    made = f"S{next(_numbers)}"
    link = CarrierLink(made, courier, "shop-42", "express", 2000, 60, 0, "courier-json")

    async def work(database: Database) -> None:
        await add_carrier(database, made, "迅达速递", r"SW\d{10}")
        await connect(database, sealer_of(extended), link, SECRET)

    extended.do(work)
    return made


@pytest.fixture
def faults(courier: str) -> Iterator[Any]:
    """Says how the courier fails; after the test it does not any more."""

    def set_faults(**by_message: str) -> None:
        httpx.post(f"{courier}/faults", json=by_message, trust_env=False).raise_for_status()

    yield set_faults
    set_faults()


@pytest.fixture
def customer(extended: Store) -> Caller:
    return new_customer(extended, credits_=CREDITS)


def _without_install(commands: str) -> str:
    return re.sub(r"^pip install .*$", ":", commands, flags=re.MULTILINE)


def new_counter(store: Store, *owner_ids: str, kind: str = "live", rate: int = 1000) -> Caller:
    """An account that may call the sixth operation, with the consent of these shops."""
    made = new_caller(store, operations=(), kind=kind)

    async def work(database: Database) -> None:
        await add_permission(database, made.account_id, Permission(NAME, None, rate))
        await top_up(database, RUNTIME, made.account_id, "credits", CREDITS)
        for owner_id in owner_ids:
            wanted = GrantRequest(made.account_id, OwnerKind.SHOP, owner_id, SCOPE)
            await give_grant(database, RUNTIME, wanted, lifetime_s=3600, granted_by="operator")

    store.do(work)
    return made


def count_orders(gateway: Gateway, caller: Caller, **changes: str) -> Reply:
    headers = {"Idempotency-Key": changes.pop("key")} if "key" in changes else None
    query = {"owner_id": SHOP.id, "days": "2", **changes}
    return gateway.get(PATH, token=caller.token, query=query, headers=headers)


def journal(courier: str, body: dict[str, Any], what: str) -> list[dict[str, Any]]:
    lines = httpx.get(f"{courier}/journal", trust_env=False).json()
    issued = [
        line["reference"]
        for line in lines
        if line["what"] == "issue" and line["recipient"]["name"] == body["receiver_name"]
    ]
    return [line for line in lines if line["what"] == what and line["reference"] in issued]


def parcel(wp_code: str) -> dict[str, Any]:
    """A request of its own, which the courier's journal knows by the name of its receiver."""
    return request(wp_code, receiver_name=f"王小{next(_numbers)}")


# The operation.


@pytest.mark.sqlite
def test_the_examples_of_the_page_are_short_and_in_shape(tmp_path: Path) -> None:
    files = files_of_page()
    modules = {name: text for name, text in files.items() if name.endswith(".py")}
    assert len(modules) == 2 and len(files) == 4
    for name, text in modules.items():
        assert len(text.splitlines()) < 60, name
        (tmp_path / Path(name).name).write_text(text, encoding="utf-8")
    for command in (("format", "--check"), ("check",)):
        ruff = [Path(sys.executable).parent / "ruff", *command, "--config", ROOT / "pyproject.toml"]
        done = subprocess.run([*ruff, tmp_path], capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode()


@pytest.mark.sqlite
def test_what_the_page_shows_is_printed(
    environment: Environment, extended: Store, served: Gateway, courier: str
) -> None:
    caller = new_counter(extended, SHOP.id)
    variables = {"BASE": served.base_url, "TOKEN": caller.token, "SHOP": SHOP.id}
    for example in examples_of(PAGE):
        printed = environment.shell(
            _without_install(example.commands.text),
            **{**variables, "COURIER": courier, **extended.settings},
        )
        assert example.shown is not None
        assert is_like(example.shown.text, example.shown.language, printed), printed
    customer, body = new_customer(extended), parcel("SWIFT")
    assert issue(served, customer.token, body).data["code"] == 1
    assert len(journal(courier, body, "issue")) == 1


def test_0_a_success_is_charged_once_and_has_its_receipt(
    served: Gateway, extended: Store, today: date
) -> None:
    caller = new_counter(extended, SHOP.id)
    reply = count_orders(served, caller, key="once")
    assert reply.code == 0 and reply.data["withholding_money"] == 2
    assert sum(reply.data["days"].values()) == 3
    assert next(iter(reply.data["days"])) == str(today)
    again = count_orders(served, caller, key="once")
    assert again.headers["x-replay-of"] == reply.headers["x-request-id"]
    assert again.data == {**reply.data, "withholding_money": 0}
    assert credits_left(extended, caller) == CREDITS - 2
    receipt = receipt_of(served, caller.token, reply)
    assert (receipt["operation"], receipt["outcome"], receipt["amount"]) == (NAME, "charged", 2)
    assert receipt["consent"]["owner_id"] == SHOP.id
    assert count_orders(served, caller, key="once", days="3").code == 100


def test_302_until_the_owner_has_read_what_it_is_about_and_approved(
    served: Gateway, extended: Store
) -> None:
    caller = new_counter(extended)
    refused = count_orders(served, caller)
    assert refused.code == 302 and credits_left(extended, caller) == CREDITS
    browser = Browser(served)
    browser.open(refused.data["authorize_url"])
    assert "count your shop&#39;s orders" in browser.sign_in("qinghe").text
    assert "You approved" in browser.send("/authorize", answer="approve").text
    reply = eventually(lambda: count_orders(served, caller), lambda reply: reply.code == 0)
    seen = browser.open("/owner").text
    assert "Orders per day" in seen and reply.headers["x-request-id"] in seen
    browser.client.close()


def test_people_who_read_chinese_read_what_it_says_in_chinese(
    served: Gateway, extended: Store
) -> None:
    caller = new_counter(extended)
    refused = count_orders(served, caller)
    browser = Browser(served)
    browser.client.headers["Accept-Language"] = "zh-CN"
    browser.open(refused.data["authorize_url"])
    assert "<dd>统计您店铺的订单数量。</dd>" in browser.sign_in("qinghe").text
    browser.send("/authorize", answer="approve")
    eventually(lambda: count_orders(served, caller), lambda reply: reply.code == 0)
    seen = browser.open("/owner").text
    assert "可以统计您店铺的订单数量。" in seen and "每日订单数" in seen
    reference = browser.open(f"/docs/{NAME}").text
    for each in ("<h1>每日订单数", "天数，含今天。", "每天的订单数。"):
        assert each in reference
    for each in (seen, reference, browser.open("/").text):
        assert "Orders per day" not in each and "count your shop" not in each
    browser.client.close()


def test_its_parameters_are_read_as_those_of_the_others(served: Gateway, extended: Store) -> None:
    caller = new_counter(extended, SHOP.id)
    plain = count_orders(served, caller)
    found = count_orders(served, caller, days=" 2", owner_id=f" {SHOP.id}", sign="1")
    assert count_orders(served, caller, days="").code == 0
    assert (found.code, found.data) == (0, plain.data)
    assert found.headers["x-ignored-parameters"] == "sign"


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"owner_id": EMPTY_SHOP.id}, "nothing here for the value of parameter owner_id"),
        ({"days": "91"}, "Parameter days is not valid: it is more than 90"),
        ({"Days": "3"}, "Parameter Days is not known, but days is"),
    ],
)
def test_100_what_is_refused_costs_nothing(
    served: Gateway, extended: Store, query: dict[str, str], sentence: str
) -> None:
    caller = new_counter(extended, SHOP.id, EMPTY_SHOP.id)
    reply = count_orders(served, caller, **query)
    assert reply.code == 100 and sentence in reply.msg
    assert credits_left(extended, caller) == CREDITS
    assert receipt_of(served, caller.token, reply)["outcome"] == "not_charged"


def test_103_202_and_204(served: Gateway, extended: Store) -> None:
    caller = new_counter(extended, SHOP.id, rate=1)
    assert count_orders(served, new_counter(extended), owner_id="unheard-of").code == 103
    assert count_orders(served, new_caller(extended)).code == 204

    async def crowd() -> list[int]:
        async with httpx.AsyncClient(base_url=served.base_url, timeout=30) as client:
            asked = [
                client.get(
                    PATH,
                    params={"owner_id": SHOP.id},
                    headers={"Authorization": f"Bearer {caller.token}"},
                )
                for _ in range(20)
            ]
            return [reply.json()["code"] for reply in await asyncio.gather(*asked)]

    assert set(asyncio.run(crowd())) == {0, 202}


def test_the_sandbox_answers_and_is_free(served: Gateway, extended: Store) -> None:
    tester = new_counter(extended, kind="test")
    reply = count_orders(served, tester, days="30")
    assert reply.code == 0 and reply.data["withholding_money"] == 0
    assert sum(reply.data["days"].values()) > 0
    assert credits_left(extended, tester) == CREDITS


def test_it_is_described_and_measured(served: Gateway, extended: Store) -> None:
    caller = new_counter(extended, SHOP.id)
    assert count_orders(served, caller).code == 0
    described = served.client.get("/openapi.json").json()["paths"][PATH]["get"]
    assert (described["operationId"], described["summary"]) == (NAME, "Orders per day")
    examples = described["responses"]["200"]["content"]["application/json"]["examples"]
    # No made-up success: a package brings no example.
    assert {"DRY_RUN", "NOTHING_FOUND", "NOT_AUTHORIZED", "CREDITS_USED_UP"} <= set(examples)
    counted = re.compile(rf'tollway_calls_total{{.*operation="{NAME}".*reason="SUCCESS".*}} [1-9]')
    eventually(lambda: served.client.get("/metrics").text, counted.search)


def test_the_commands_know_it_and_the_audit_finds_nothing_with_it_or_without(
    environment: Environment, served: Gateway, extended: Store
) -> None:
    caller = new_counter(extended, SHOP.id)
    environment.shell(f"tollway price set {NAME} 7", **extended.settings)
    reply = eventually(
        lambda: count_orders(served, caller), lambda reply: reply.data["withholding_money"] == 7
    )
    assert receipt_of(served, caller.token, reply)["amount"] == 7
    environment.shell(f"tollway price set {NAME} 2; tollway audit", **extended.settings)
    # This process runs where the package was never installed, like after an uninstall.
    audit = forks.run("tollway", "audit", env=_settings(extended), cwd=extended.path.parent)
    assert audit.returncode == 0, audit.stdout


def _settings(store: Store) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TOLLWAY_")}
    return {**kept, **store.settings}


# The protocol. It reaches no database; what is held and captured is tested on both engines in
# `tests/operations/test_remote_waybills.py`.


@pytest.mark.sqlite
def test_the_courier_gives_the_number_and_the_price_is_captured(
    served: Gateway, extended: Store, customer: Caller, wp_code: str, courier: str
) -> None:
    body = parcel(wp_code)
    reply = issue(served, customer.token, body)
    assert (reply.code, reply.data["code"]) == (0, 1), reply.envelope
    (line,) = journal(courier, body, "issue")
    assert (line["account"], line["service"]) == ("shop-42", "express")
    assert reply.data["waybillCode"].startswith("SW")
    ledger = ledger_of(extended, customer)
    assert (ledger.available, ledger.held, ledger.posted) == (CREDITS - PRICE, 0, PRICE)


@pytest.mark.sqlite
def test_what_the_courier_refuses_costs_nothing(
    served: Gateway, extended: Store, customer: Caller, wp_code: str, faults: Any
) -> None:
    faults(issue="refuse")
    reply = issue(served, customer.token, parcel(wp_code))
    assert (reply.code, reply.data["code"]) == (0, 0)
    assert reply.data["errorMsg"] == "月结账号已冻结"
    assert ledger_of(extended, customer).posted == 0


@pytest.mark.sqlite
def test_an_answer_that_is_lost_is_looked_up_at_once(
    served: Gateway, extended: Store, customer: Caller, wp_code: str, courier: str, faults: Any
) -> None:
    faults(issue="cut_after")
    body = parcel(wp_code)
    reply = issue(served, customer.token, body)
    assert (reply.code, reply.data["code"]) == (0, 1), reply.envelope
    assert len(journal(courier, body, "issue")) == len(journal(courier, body, "find")) == 1
    assert ledger_of(extended, customer).posted == PRICE


@pytest.mark.sqlite
def test_101_while_the_outcome_is_unknown_the_price_is_held(
    served: Gateway, extended: Store, customer: Caller, wp_code: str, courier: str, faults: Any
) -> None:
    faults(issue="cut_after", find="cut_before")
    body = parcel(wp_code)
    reply = issue(served, customer.token, body)
    assert reply.code == 101 and "credits are held" in reply.msg
    ledger = ledger_of(extended, customer)
    assert (ledger.available, ledger.held, ledger.posted) == (CREDITS - PRICE, PRICE, 0)
    assert len(journal(courier, body, "issue")) == 1
    faults()
    ledger = eventually(lambda: ledger_of(extended, customer), lambda ledger: ledger.held == 0)
    assert ledger.posted == PRICE
    after = issue(served, customer.token, body)
    assert after.headers["x-replay-of"] == reply.headers["x-request-id"]
    assert len(journal(courier, body, "issue")) == 1


@pytest.mark.sqlite
def test_a_number_is_taken_back_at_the_courier(
    environment: Environment,
    served: Gateway,
    extended: Store,
    customer: Caller,
    wp_code: str,
    courier: str,
) -> None:
    body = parcel(wp_code)
    number = issue(served, customer.token, body).data["waybillCode"]
    environment.shell(f"tollway waybill cancel {number}", **extended.settings)
    assert [line["number"] for line in journal(courier, body, "cancel")] == [number]
