"""The account API, over HTTP as a program uses it."""

import time
from base64 import b64decode, urlsafe_b64encode
from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.support.all_operations import all_operations_caller, ask, good_request
from tests.support.gateway import Gateway, Reply
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.owners import authorize
from tests.support.receipts import receipt_of
from tests.support.stores import Store
from tollway.carriers.waybills import StoredWaybill, cancel_waybill, find_by_number
from tollway.consent.grants import grants_of_account, revoke_grant
from tollway.contract.operation import Operation
from tollway.contract.reasons import Reason, Refusal
from tollway.demo.owners import SHOP
from tollway.ledger.entries import top_up
from tollway.ledger.tokens import issue_token
from tollway.ledger.usage import roll_up
from tollway.operations.account_api import ACCOUNT_OPERATIONS, waybills
from tollway.operations.catalogue import BY_NAME, OPERATIONS
from tollway.store.database import Database
from tollway_client import Client, errors

ORDERS, CLAIMS, ANALYSIS = (BY_NAME[n] for n in ("orders", "coupon_claims", "product_analysis"))


def get_own(world: Gateway, token: str, path: str, **query: str) -> Reply:
    return world.get(f"/account/v1/{path}", token=token, query=query)


def test_balances_prices_and_limits(client: Client, caller: Caller) -> None:
    state = client.account.balance()
    assert state.account_id == caller.account_id
    assert {each.unit: each.amount for each in state.balances} == {
        "credits": 1000,
        "calls:product_analysis": 100,
    }
    prices = {each.operation: each.price for each in state.operations if each.is_open}
    assert prices == {each.name: each.default_price for each in OPERATIONS}
    client.orders(owner_id=SHOP.id)
    left = {each.operation: (each.limit, each.remaining) for each in client.account.limits().limits}
    assert left["coupon_claims"] == (10, 10)
    assert left["orders"] in ((10, 9), (10, 10))


def test_use_by_day_and_operation(
    client: Client, world: Gateway, caller: Caller, today: date
) -> None:
    client.orders(owner_id=SHOP.id)
    client.orders(owner_id=SHOP.id)
    client.product_analysis(**good_request(ANALYSIS, today))
    refused = ask(world, CLAIMS, caller.token, {"page": "0"})
    receipt_of(world, caller.token, refused)
    days = client.account.usage(from_date=today, to_date=today).days
    found = {each.operation: (each.charged_calls, each.amount, each.other_calls) for each in days}
    assert found == {"orders": (2, 2, 0), "product_analysis": (1, 1, 0), "coupon_claims": (0, 0, 1)}
    assert {each.date for each in days} == {today.isoformat()}
    # Once they are in the sums, which need not be yet, they count once too.
    zone = ZoneInfo("Asia/Shanghai")
    while world.store.do(lambda database: roll_up(database, zone, int(time.time()))):
        pass
    assert client.account.usage(from_date=today, to_date=today).days == days
    client.orders(owner_id=SHOP.id)
    (orders,) = (
        each
        for each in client.account.usage(from_date=today - timedelta(30), to_date=today).days
        if each.operation == "orders"
    )
    assert (orders.date, orders.charged_calls, orders.amount) == (today.isoformat(), 3, 3)
    yesterday = today - timedelta(1)
    assert client.account.usage(from_date=yesterday, to_date=yesterday).days == []
    with pytest.raises(errors.ParameterError, match="to_date are 32 days: ask for at most 31 days"):
        client.account.usage(from_date="2026-01-01", to_date="2026-02-01")
    # A window of one day is none that is refused, and the sentence does not say that it is.
    with pytest.raises(errors.ParameterError, match="to_date is too early for from_date: send a"):
        client.account.usage(from_date=today, to_date=yesterday)


@pytest.mark.parametrize("day", [date.min, date.max])
def test_the_first_and_the_last_day_of_the_calendar_have_no_use(client: Client, day: date) -> None:
    assert client.account.usage(from_date=day, to_date=day).days == []


def test_the_ledger_in_pages(client: Client) -> None:
    for _ in range(4):
        client.orders(owner_id=SHOP.id)
    numbers, before = [], None
    while True:
        page = client.account.entries(before=before, limit=2)
        numbers += [(each.number, each.balance_after) for each in page.entries]
        before = page.next_before
        if before is None:
            break
    assert numbers == [(5, 996), (4, 997), (3, 998), (2, 999), (1, 1000)]


def test_the_ledger_of_an_unknown_unit_is_refused_with_those_that_there_are(
    client: Client, world: Gateway, caller: Caller
) -> None:
    said = "unit is not valid: there is no such balance. Send calls:product_analysis or credits."
    for unit in ("yuan", "calls:orders", "Credits"):
        with pytest.raises(errors.ParameterError, match=said):
            client.account.entries(unit=unit)
    assert client.account.entries(unit="calls:product_analysis").entries
    # An operation of a package that is no longer installed leaves its entries.
    world.store.do(lambda database: top_up(database, RUNTIME, caller.account_id, "calls:gone", 3))
    assert [each.amount for each in client.account.entries(unit="calls:gone").entries] == [3]
    assert client.account.entries(unit="calls:gone", before=1).entries == []


@pytest.mark.parametrize(
    ("list_", "next_"), [("entries", "next_before"), ("requests", "next_cursor")]
)
def test_where_a_page_goes_on_is_taken_under_the_name_of_the_answer(
    client: Client, world: Gateway, caller: Caller, list_: str, next_: str
) -> None:
    for _ in range(3):
        client.orders(owner_id=SHOP.id)

    def page(**sent: str) -> Any:
        query = {"limit": "2", **sent}
        return world.get(f"/account/v1/{list_}", token=caller.token, query=query).data

    first = page()
    second = page(**{next_: str(first[next_])})
    assert second[list_] and second[list_] != first[list_]


@pytest.mark.parametrize("sent", ["x", "con_1", "con_2b5d8f3h6k9mx", "con_2b5d8f3h6k9i", "-1", "~"])
@pytest.mark.parametrize(
    ("list_", "names"),
    [
        ("entries", ("before", "next_before")),
        ("requests", ("cursor", "next_cursor")),
        ("consents", ("after", "next_after")),
        ("webhooks/deliveries", ("before", "next_before")),
    ],
)
def test_where_no_page_ended_none_goes_on(
    client: Client, world: Gateway, caller: Caller, list_: str, names: tuple[str, str], sent: str
) -> None:
    """An empty page would say that there is nothing more."""
    of = {}
    if list_ == "webhooks/deliveries":
        made = client.account.webhooks_make(url="https://93.184.216.34/hook")
        of = {"webhook_id": made.endpoint.id}
    for name in names:
        refused = get_own(world, caller.token, list_, **of, **{name: sent})
        assert refused.code == 100 and any(each in refused.msg for each in names), refused.msg
    assert get_own(world, caller.token, list_, **of).code == 0


def test_calls_in_pages_charged_or_not_with_their_receipts(
    client: Client, world: Gateway, caller: Caller, today: date
) -> None:
    sent = []
    for n in range(3):
        sent.append((client.orders(owner_id=SHOP.id).meta.request_id, "SUCCESS"))
        sent.append(
            (client.product_analysis(**good_request(ANALYSIS, today)).meta.request_id, "SUCCESS")
        )
        refused = ask(world, CLAIMS, caller.token, {"page": str(-n)})
        receipt_of(world, caller.token, refused)
        sent.append((refused.headers["x-request-id"], refused.headers["x-tollway-reason"]))
    found, cursor = [], None
    while True:
        page = client.account.requests(cursor=cursor, limit=2)
        found += [(each.request_id, each.reason) for each in page.requests]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == sent[::-1]
    receipt = client.account.receipt(request_id=sent[0][0])
    assert (receipt.outcome, receipt.amount, receipt.unit) == ("charged", 1, "credits")
    with pytest.raises(errors.NotFoundError):
        client.account.receipt(request_id="0" * 26)
    for cursor in (
        b'[{},"~",' + b"[" * 1450,
        b"no",
        b'[{"credits":-99999999999999999999},"~"]',
        b'[{"credits":99999999999999999999},"~"]',
        b'[{},"\\u0000"]',
        b'[{},"' + b"x" * 100 + b'"]',
        b"[" * 900,
    ):
        with pytest.raises(errors.ParameterError, match="cursor"):
            client.account.requests(cursor=urlsafe_b64encode(cursor).decode())


def test_internal_names_are_looked_up_so_often_a_day(
    client: Client, world: Gateway, caller: Caller
) -> None:
    """Why the address of a webhook is refused tells whether the network has such a name."""
    with pytest.raises(errors.ParameterError, match="leads to an internal address"):
        client.account.webhooks_make(url="https://localhost/hook")
    world.store.run(f"UPDATE account_day SET number = 49 WHERE account_id = '{caller.account_id}'")
    with pytest.raises(errors.ParameterError, match="leads to an internal address"):
        client.account.webhooks_make(url="https://localhost/hook")
    with pytest.raises(errors.PermissionMissingError, match="try again tomorrow"):
        client.account.webhooks_make(url="https://localhost/hook")
    with pytest.raises(errors.ParameterError, match="not https"):
        client.account.webhooks_make(url="http://localhost/hook")
    # Also a name server that fails has a host refused: that must not keep webhooks from being made.
    client.account.webhooks_make(url="https://93.184.216.34/hook")


def test_what_costs_nothing_can_be_made_so_often_a_day(
    client: Client, world: Gateway, caller: Caller
) -> None:
    webhook = client.account.webhooks_make(url="https://93.184.216.34/hook").endpoint
    changes = (
        lambda: client.account.tokens_make(label="one more"),
        lambda: client.account.tokens_rotate(token_id=caller.token_id),
        lambda: client.account.webhooks_make(url="https://93.184.216.34/hook"),
        lambda: client.account.webhooks_rotate(webhook_id=webhook.id),
        client.account.webhooks_test,
        lambda: client.account.alerts_set(unit="credits", below=1),
    )
    for change in changes:
        change()
    world.store.run(
        f"UPDATE account_day SET number = 1000 WHERE account_id = '{caller.account_id}'"
    )
    for change in changes:
        with pytest.raises(errors.PermissionMissingError, match="try again tomorrow") as refused:
            change()
        assert refused.value.reason == "ACCOUNT_LIMIT_REACHED"
    # What takes things away is never refused.
    client.account.webhooks_end(webhook_id=webhook.id)
    client.account.tokens_revoke(token_id=caller.token_id)


def test_another_accounts_things_do_not_exist(client: Client, world: Gateway, today: date) -> None:
    other = all_operations_caller(world.store)
    for change in (client.account.tokens_revoke, client.account.tokens_rotate):
        with pytest.raises(errors.NotFoundError) as found:
            change(token_id=other.token_id)
        assert found.value.reason == "ITEM_UNKNOWN"
    paid = ask(world, ORDERS, other.token, good_request(ORDERS, today))
    with pytest.raises(errors.NotFoundError):
        client.account.receipt(request_id=paid.headers["x-request-id"])
    assert paid.headers["x-request-id"] not in str(client.account.requests())


def test_without_a_webhook_nothing_is_sent_and_there_is_no_log(client: Client) -> None:
    assert not client.account.webhooks_test().done
    with pytest.raises(errors.NotFoundError) as found:
        client.account.webhooks_deliveries(webhook_id="whk_1")
    assert found.value.reason == "ITEM_UNKNOWN"
    made = client.account.webhooks_make(url="https://93.184.216.34/hook").endpoint
    assert client.account.webhooks_deliveries(webhook_id=made.id).deliveries == []


def test_consents_and_links_that_ask_for_them(client: Client, world: Gateway) -> None:
    page = client.account.consents(limit=2)
    rest = client.account.consents(after=page.next_after)
    found = [*page.consents, *rest.consents]
    assert {each.scope for each in found} == {"orders", "waybills", "promotion"}
    assert all(each.holds for each in found) and rest.next_after is None
    # Also if the last page is full.
    assert client.account.consents(limit=len(found)).next_after is None
    link = client.account.consents_link(scope="orders", owner_id=SHOP.id)
    assert world.client.get(link.authorize_url).status_code in (200, 302, 303)
    with pytest.raises(errors.OwnerUnknownError):
        client.account.consents_link(scope="orders", owner_id="nowhere")
    with pytest.raises(errors.ParameterError, match="scope"):
        client.account.consents_link(scope="everything", owner_id=SHOP.id)


def test_a_waybill_that_is_cancelled_while_its_label_is_asked_for_has_none(
    client: Client, world: Gateway, today: date, monkeypatch: pytest.MonkeyPatch
) -> None:
    issued = client.issue_waybill(**good_request(BY_NAME["waybills"], today))

    async def work(database: Database) -> None:
        async def find(*_: object) -> StoredWaybill:
            found = await find_by_number(database, issued.waybillCode)
            await cancel_waybill(database, issued.waybillCode, None, RUNTIME)
            return found

        monkeypatch.setattr(waybills, "_find_issued", find)
        parts: Any = SimpleNamespace(database=database, runtime=RUNTIME)
        with pytest.raises(Refusal) as refused:
            await waybills._find_printed(parts, parts, [issued.objectId])
        assert refused.value.reason is Reason.WAYBILL_UNKNOWN

    world.store.do(work)


def test_a_waybill_has_a_state_a_label_in_three_formats_and_can_be_cancelled(
    client: Client, world: Gateway, caller: Caller, today: date
) -> None:
    request = good_request(BY_NAME["waybills"], today)
    issued = client.issue_waybill(**request)
    account = client.account
    state = account.waybills(object_id=issued.objectId)
    assert (state.state, state.waybill_code, state.price) == ("issued", issued.waybillCode, 10)
    for kind, start in (("pdf", b"%PDF"), ("png", b"\x89PNG"), ("zpl", b"^XA")):
        label = account.waybills_label(object_id=issued.objectId, format=kind)
        assert b64decode(label.content).startswith(start)
    other = all_operations_caller(world.store)
    with Client(other.token, world.base_url) as outsider:
        for ask_for in (
            outsider.account.waybills,
            outsider.account.waybills_label,
            outsider.account.waybills_cancel,
        ):
            with pytest.raises(errors.NotFoundError):
                ask_for(object_id=issued.objectId)
    _revoke_all(world.store, caller)
    with pytest.raises(errors.NotAuthorizedError):
        account.waybills_label(object_id=issued.objectId)
    with pytest.raises(errors.NotAuthorizedError):
        account.waybills_cancel(object_id=issued.objectId)
    shop = SHOP
    world.store.do(lambda db: authorize(db, caller.account_id, BY_NAME["waybills"], shop))
    assert account.waybills_cancel(object_id=issued.objectId).state == "cancelled"
    # There is no list of waybills that it could refer to.
    for unknown in (issued.objectId, "wb_none"):
        with pytest.raises(errors.NotFoundError, match="is the objectId that") as found:
            account.waybills_cancel(object_id=unknown)
        assert found.value.reason == "WAYBILL_UNKNOWN"
    assert client.issue_waybill(**request).waybillCode != issued.waybillCode


def _revoke_all(store: Store, caller: Caller) -> None:
    async def work(database: Database) -> None:
        for each in await grants_of_account(database, caller.account_id):
            await revoke_grant(database, RUNTIME, each.grant.id)

    store.do(work)


@pytest.mark.parametrize("operation", ACCOUNT_OPERATIONS, ids=lambda each: each.name)
def test_every_endpoint_needs_a_live_token_and_its_method_and_is_limited(
    world: Gateway, operation: Operation
) -> None:
    assert world.get(operation.path, method=operation.method).code == 401
    caller = new_caller(world.store)
    test = world.store.do(
        lambda database: issue_token(database, RUNTIME, caller.account_id, kind="test")
    )
    refused = world.get(operation.path, token=test.text, method=operation.method)
    assert refused.headers["x-tollway-reason"] == "LIVE_TOKEN_NEEDED"
    wrong = "POST" if operation.method == "GET" else "GET"
    assert world.get(operation.path, token=caller.token, method=wrong).code == 404
    assert refused.headers["ratelimit-policy"] == f'"{operation.name}";q=10;w=1'


def test_an_unknown_path_of_the_account_is_404(world: Gateway, caller: Caller) -> None:
    assert get_own(world, caller.token, "nothing").code == 404
