"""LINK as its gateway wants it, against a fake that was written from public facts: every message,
both forms of answers, and what becomes of an outcome that cannot be asked for."""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from tests.carriers.conftest import carrier_with, new_order
from tests.support.forks import Fork, run
from tests.support.gateway import Gateway
from tests.support.remote import age_pending, ledger_of
from tests.support.stores import Store
from tests.support.waybills import issue, new_customer, request
from tollway.carriers.carrier_links import CAINIAO_LINK, CarrierLink, OpenedCarrierLink, connect
from tollway.carriers.carriers import add_carrier
from tollway.carriers.connectors import cainiao_link
from tollway.carriers.connectors.cainiao_link import (
    CainiaoConnector,
    digest,
    issue_content,
    read_answer,
)
from tollway.carriers.connectors.connector import (
    AnswerUnusableError,
    Cancelled,
    Declined,
    Issued,
    LinkRefusedError,
    NoLookUpError,
    OutcomeUnknownError,
    Updated,
)
from tollway.carriers.connectors.http_exchange import open_client
from tollway.store.open import open_sealer

T = TypeVar("T")
SECRET = "link-secret"
TEMPLATE = "http://cloudprint.cainiao.com/template/standard/101"
_codes = count(1)
# What is said to the carrier alone: no database has a part in it.
without_store = pytest.mark.sqlite


class FakeLink:
    """`python -m tollway.demo.fakes.link` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        secret = folder / "link.secret"
        secret.write_text(f"{SECRET}\n", "utf-8")
        self._process = Fork("tollway.demo.fakes.link", "--secret-file", str(secret))
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split()[-1]
        self._base = self.url.removesuffix("/gateway/link.do")

    def misbehave(self, fault: str, **details: str) -> None:
        httpx.post(f"{self._base}/control", json={"fault": fault, **details}, trust_env=False)

    def journal(self) -> list[dict[str, Any]]:
        lines = httpx.get(f"{self._base}/journal", trust_env=False).text.splitlines()
        return [json.loads(line) for line in lines]

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(30) == 0
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture(scope="module")
def shared_link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeLink]:
    started = FakeLink(tmp_path_factory.mktemp("link"))
    yield started
    started.stop()


@pytest.fixture
def link(shared_link: FakeLink) -> Iterator[FakeLink]:
    yield shared_link
    shared_link.misbehave("none")


def opened(url: str, *, secret: str = SECRET, deadline_ms: int = 5000) -> OpenedCarrierLink:
    link = CarrierLink("YTO", url, "TOLLWAY", "", deadline_ms, 60, 0, CAINIAO_LINK, TEMPLATE)
    return OpenedCarrierLink(link, secret)


def ask(over: OpenedCarrierLink, question: Callable[[CainiaoConnector], Awaitable[T]]) -> T:
    async def work() -> T:
        async with open_client() as client:
            return await question(CainiaoConnector(client, carrier_with(), over))

    return asyncio.run(work())


@pytest.mark.parametrize("form", ["none", "xml"])
@without_store
def test_a_number_comes_with_the_carriers_own_print_data(link: FakeLink, form: str) -> None:
    link.misbehave(form)
    order = new_order()
    issued = ask(opened(link.url), lambda to: to.issue(order))
    assert isinstance(issued, Issued)
    assert link.journal()[-1] == {
        "event": "issued",
        "objectId": order.ref.task_id,
        "number": issued.number,
    }
    assert issued.print_data is not None and issued.routing is not None
    assert json.loads(issued.print_data)["templateURL"] == TEMPLATE
    assert issued.routing.route_code == "755-D12-03"
    updated = ask(opened(link.url), lambda to: to.update(order, issued.number))
    assert isinstance(updated, Updated) and updated.routing == issued.routing
    assert updated.print_data is not None and link.journal()[-1]["event"] == "updated"
    assert ask(opened(link.url), lambda to: to.cancel(order.ref, issued.number)) == Cancelled(
        issued.number
    )
    assert link.journal()[-1]["event"] == "discarded"


@without_store
def test_what_the_carrier_refuses_is_its_own_text(link: FakeLink) -> None:
    link.misbehave("refuse", reason="余额不足")
    order = new_order()
    assert ask(opened(link.url), lambda to: to.issue(order)) == Declined("余额不足")
    link.misbehave("none")
    declined = ask(opened(link.url), lambda to: to.cancel(order.ref, "YT404"))
    assert declined == Declined("面单号不存在")
    assert ask(opened(link.url), lambda to: to.update(order, "YT404")) == declined


@without_store
def test_what_the_gateway_does_not_pass_on_was_not_sent(link: FakeLink) -> None:
    with pytest.raises(LinkRefusedError, match="S02"):
        ask(opened(link.url, secret="another"), lambda to: to.issue(new_order()))
    with pytest.raises(OutcomeUnknownError, match="S07"):
        link.misbehave("S07")
        ask(opened(link.url), lambda to: to.issue(new_order()))


def _wanted(content: dict[str, Any]) -> dict[str, Any]:
    wanted: dict[str, Any] = content["tradeOrderInfoDtos"][0]
    return wanted


# Each makes a message that LINK would not take: what is spoilt, and how.
_SPOILT: dict[str, Callable[[dict[str, Any]], object]] = {
    "flat": lambda content: content.update(content.pop("tradeOrderInfoDtos")[0]),
    "no orders": lambda content: content.update(tradeOrderInfoDtos=[]),
    "unknown field": lambda content: content.update(waybillType=1),
    "unknown field of an order": lambda content: _wanted(content).update(weight=1),
    "no template": lambda content: _wanted(content).pop("templateUrl"),
    "no items": lambda content: _wanted(content)["packageInfo"].update(items=[]),
    "another channel": lambda content: _wanted(content)["orderInfo"].update(
        orderChannelsType="SHOP"
    ),
    "no phone": lambda content: _wanted(content)["recipient"].update(mobile="", phone=""),
    "no street": lambda content: content["sender"]["address"].update(detail=""),
    "number of items as text": lambda content: _wanted(content)["packageInfo"]["items"][0].update(
        count="1"
    ),
}


@pytest.mark.parametrize("spoilt", _SPOILT)
@without_store
def test_the_fake_issues_nothing_for_a_message_of_another_shape(
    link: FakeLink, spoilt: str
) -> None:
    content = json.loads(issue_content("YTO", new_order(), TEMPLATE))

    def answered() -> dict[str, Any]:
        text = json.dumps(content, ensure_ascii=False)
        form = {"msg_type": "TMS_WAYBILL_GET", "logistic_provider_id": "TOLLWAY", "to_code": ""}
        form |= {"logistics_interface": text, "data_digest": digest(text, SECRET)}
        found: dict[str, Any] = httpx.post(link.url, data=form, trust_env=False).json()
        return found

    assert answered()["success"] == "true"
    _SPOILT[spoilt](content)
    assert (refused := answered())["errorCode"] == "S12", refused
    assert link.journal()[-1]["event"] == "refused"


@pytest.mark.parametrize("fault", ["cut", "text"])
@without_store
def test_without_an_answer_the_outcome_is_unknown_and_cannot_be_asked_for(
    link: FakeLink, fault: str
) -> None:
    link.misbehave(fault)
    order = new_order()
    with pytest.raises(OutcomeUnknownError):
        ask(opened(link.url), lambda to: to.issue(order))
    assert link.journal()[-1]["objectId"] == order.ref.task_id
    with pytest.raises(NoLookUpError):
        ask(opened(link.url), lambda to: to.look_up(order.ref))


@without_store
def test_the_branches_that_issue_numbers_are_shown(link: FakeLink) -> None:
    (branch,) = ask(opened(link.url), lambda to: to.subscriptions())
    assert branch.branch_code == "571001" and branch.quantity > 0
    assert branch.addresses == ["浙江省杭州市余杭区良睦路 1 号"]


@pytest.mark.parametrize("listed", ["x", ["x"], [{"branchAccountCols": "x"}], [{}]])
@without_store
def test_branches_of_another_form_are_none(listed: object, monkeypatch: pytest.MonkeyPatch) -> None:
    async def exchange(*_: object) -> bytes:
        return json.dumps({"success": True, "waybillApplySubscriptionCols": listed}).encode()

    monkeypatch.setattr(cainiao_link, "exchange", exchange)
    assert ask(opened("https://link.example/"), lambda to: to.subscriptions()) == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[1]",
        b"{}",
        b'{"success": null}',
        b'{"success": 1}',
        b'{"success": "1"}',
        b"<r><success/></r>",
        b"<response>",
        b'<!DOCTYPE r [<!ENTITY a "b">]><r><success>true</success></r>',
        b"<r>" * 40 + b"</r>" * 40,
        b"[" * 30_000,
        "<成功>".encode("gbk"),
    ],
)
@without_store
def test_an_answer_of_another_form_is_no_answer(body: bytes) -> None:
    with pytest.raises(OutcomeUnknownError):
        read_answer(body)


@pytest.mark.parametrize(
    "given",
    [
        {"waybillCloudPrintResponseList": [{"objectId": "ID", "waybillCode": "YT0000000000001"}]},
        {"waybillCloudPrintResponseList": [{"objectId": " ID", "waybillCode": "YT0000000000001"}]},
        {"waybillCloudPrintResponseList": [{"waybillCode": 1}]},
        {"waybillCloudPrintResponseList": {"objectId": "ID", "waybillCode": "YT0000000000001"}},
        {"waybillCode": "YT0000000000001"},
    ],
)
@without_store
def test_a_refusal_that_has_a_number_all_the_same_says_nothing(
    given: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    order = new_order()

    async def exchange(*_: object) -> bytes:
        answer = json.dumps({"success": "false", **given})
        return answer.replace("ID", order.ref.task_id).encode()

    monkeypatch.setattr(cainiao_link, "exchange", exchange)
    with pytest.raises(AnswerUnusableError):
        ask(opened("https://link.example/"), lambda to: to.issue(order))


def connected(store: Store, link: FakeLink) -> str:
    wp_code = f"LK{next(_codes)}"
    wanted = CarrierLink(wp_code, link.url, "TOLLWAY", "", 3000, 60, 0, CAINIAO_LINK, TEMPLATE)

    async def work(database: Any) -> None:
        await add_carrier(database, wp_code, "菜鸟合作快递", r"YT\d{13}")
        await connect(database, open_sealer(store.url, store.key_file), wanted, SECRET)

    store.do(work)
    return wp_code


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "tollway.db")


def test_a_caller_gets_the_carriers_print_data_and_an_operator_decides_what_is_unknown(
    store: Store, link: FakeLink, tmp_path: Path
) -> None:
    def tollway(*arguments: str) -> Any:
        return run("tollway", *arguments, cwd=tmp_path, env=store.settings)

    customer, wp_code = new_customer(store), connected(store, link)
    gateway = Gateway(store, reconcile_interval_s=3600)
    first = request(wp_code)
    reply = issue(gateway, customer.token, first)
    assert (reply.code, reply.data["code"]) == (0, 1), reply.msg
    assert json.loads(reply.data["printData"])["signature"] == "MD:fake"
    receiver = {name: value for name, value in request(wp_code).items() if "receiver_" in name}
    changed = gateway.client.post(
        "/account/v1/waybills/receiver",
        json={**receiver, "receiver_name": "李四光", "object_id": reply.data["objectId"]},
        headers={"Authorization": f"Bearer {customer.token}"},
    ).json()
    assert changed["code"] == 0, changed
    same = {**first, "receiver_name": "李四光"}
    shown = json.loads(issue(gateway, customer.token, same).data["printData"])
    # The carrier's own print data, for the new receiver.
    assert (shown["signature"], shown["data"]["recipient"]["name"]) == ("MD:fake", "李四光")
    label = tollway("waybill", "label", reply.data["waybillCode"], "--out", "label.zpl")
    assert label.returncode == 0, label.stderr
    wanted = {"object_id": reply.data["objectId"]}
    drawn = gateway.get("/account/v1/waybills/label", query=wanted, token=customer.token)
    assert drawn.data["content_type"] == "application/pdf", drawn.msg
    body = request(wp_code, parentWaybillCode=reply.data["waybillCode"], goods_name="四件套")
    further = issue(gateway, customer.token, body)
    assert (further.code, further.data["code"]) == (0, 1), further.msg
    assert further.data["parentWaybillCode"] == reply.data["waybillCode"]

    link.misbehave("cut")
    lost, dropped = request(wp_code), request(wp_code)
    for body in (lost, dropped):
        assert issue(gateway, customer.token, body).code == 101
    link.misbehave("none")
    assert gateway.stop() == 0
    number = link.journal()[-2]["number"]
    early = tollway("reconcile", "--decide", lost["order_sn"], "--number", number)
    assert early.returncode == 1 and "may still arrive" in early.stderr

    age_pending(store)
    found = tollway("reconcile")
    assert found.returncode == 1 and "--not-issued`." in found.stdout
    wrong = tollway("reconcile", "--decide", lost["order_sn"], "--number", "ABC")
    assert wrong.returncode == 1 and "is no number" in wrong.stderr
    refused = tollway("carrier", "disconnect", wp_code)
    assert refused.returncode == 1 and "reconcile --decide" in refused.stderr
    before = ledger_of(store, customer)
    decided = tollway("reconcile", "--decide", lost["order_sn"], "--number", number)
    assert decided.returncode == 0 and number in decided.stdout, decided.stderr
    given_up = tollway("reconcile", "--decide", dropped["order_sn"], "--not-issued")
    assert given_up.returncode == 0, given_up.stderr
    after = ledger_of(store, customer)
    assert (before.held, after.held) == (20, 0)
    assert (after.posted - before.posted, after.available - before.available) == (10, 10)
    assert "waybill decide" in tollway("trail", "show").stdout
    assert tollway("audit").returncode == 0
    assert tollway("carrier", "disconnect", wp_code).returncode == 0
