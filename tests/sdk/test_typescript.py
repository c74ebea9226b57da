"""The TypeScript SDK: compiled, and run by Node against a real gateway."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.sdk.conftest import Run
from tests.support.all_operations import all_operations_caller, good_request
from tests.support.gateway import Gateway
from tests.support.ledger import credits_left, new_caller
from tests.support.orders import OWNER, START_MS, new_shopper, order, put_orders
from tests.support.ports import free_port
from tests.support.stores import Store
from tollway.demo.owners import SHOP
from tollway.operations.catalogue import BY_NAME, OPERATIONS
from tollway.webhooks.signature import key_of, sign

# One engine: the Python SDK asks the same of gateways on both.
pytestmark = pytest.mark.sqlite
_METHODS = {
    "product_analysis": "productAnalysis",
    "coupon_claims": "couponClaims",
    "promotion_material": "promotionMaterial",
    "waybills": "issueWaybill",
    "orders": "orders",
}


def test_every_operation_answers(world: Gateway, today: date, run: Run) -> None:
    caller = all_operations_caller(world.store)
    requests = [[_METHODS[each.name], good_request(each, today)] for each in OPERATIONS]
    script = """
    const client = new tollway.Client({ token, baseUrl });
    for (const [method, request] of requests) {
      const answer = await client[method](request);
      print([Object.keys(answer), answer.meta.requestId.length > 20, answer.meta.replayOf]);
    }"""
    found = run(script, token=caller.token, baseUrl=world.base_url, requests=requests)
    assert len(found) == len(OPERATIONS)
    for operation, (fields, has_id, replay_of) in zip(OPERATIONS, found, strict=True):
        declared = operation.response_type.__struct_fields__
        assert set(fields) <= set(declared) and "meta" not in fields
        assert has_id and replay_of is None


def test_the_account_and_the_more_calls_answer(world: Gateway, today: date, run: Run) -> None:
    caller = all_operations_caller(world.store)
    waybill = good_request(BY_NAME["waybills"], today)
    script = """
    const client = new tollway.Client({ token, baseUrl });
    const changed = await client.ordersChanged({ owner_id: shop, pageSize: 2 });
    const numbers = changed.content.map((order) => order.order_sn);
    const found = await client.ordersByNumber({ owner_id: shop, order_sn: [...numbers, "none"] });
    print([found.content.map((order) => order.order_sn), found.missing, numbers]);
    const wrong = { ...waybill, order_sn: "x" };
    const batch = await client.issueWaybills({ waybills: [waybill, wrong] });
    print(batch.results.map((each) => each.code));
    const ids = [batch.results[0].waybill.objectId];
    const labels = await client.account.waybillsLabels({ object_ids: ids });
    const state = await client.account.waybills({ object_id: ids[0] });
    print([labels.content_type, state.state]);
    const exported = await client.ordersExport(
      { owner_id: shop, start_time: "2020-01-01", end_time: today });
    print(exported.records > 0);
    const { entries } = await client.account.entries({ limit: 1 });
    const { balances } = await client.account.balance();
    print([entries[0].balance_after, balances.find((each) => each.unit === "credits").amount]);
    """
    names = {"shop": waybill["owner_id"], "waybill": waybill, "today": today.isoformat()}
    found = run(script, token=caller.token, baseUrl=world.base_url, **names)
    assert (found[0][0], found[0][1]) == (found[0][2], ["none"]) and len(found[0][2]) == 2
    assert found[1:4] == [[0, 100], ["application/pdf", "issued"], True]
    assert found[4][0] == found[4][1]


def test_a_loop_takes_no_key_because_each_of_its_pages_needs_its_own(
    world: Gateway, run: Run
) -> None:
    caller = all_operations_caller(world.store)
    script = """
    const client = new tollway.Client({ token, baseUrl });
    const loops = ["iterOrders", "iterCouponClaims", "iterPromotionMaterial"];
    for (const options of [{ idempotencyKey: "k" }, { headers: { "idempotency-KEY": "k" } }]) {
      for (const loop of loops) {
        try {
          client[loop]({ owner_id: shop }, options);
          print("taken");
        } catch (error) { print([error instanceof TypeError, error.message]); }
      }
    }
    const loop = client.iterOrders({ owner_id: shop }, { headers: { a: "b" } });
    print((await loop.next()).done);
    """
    found = run(script, token=caller.token, baseUrl=world.base_url, shop=SHOP.id)
    said = "A loop takes no Idempotency-Key: each page is a call of its own, and gets one."
    assert found == [[True, said]] * 6 + [False]


def test_an_answer_that_is_lost_is_had_again_and_paid_once(world: Gateway, run: Run) -> None:
    caller = all_operations_caller(world.store)
    script = """
    const keys = [];
    const lossy = async (url, init) => {
      const response = await fetch(url, init);
      keys.push(init.headers["Idempotency-Key"]);
      if (keys.length > 2) return response;
      await response.text();
      throw new TypeError("lost");
    };
    const client = new tollway.Client({ token, baseUrl, fetch: lossy });
    const page = await client.orders({ owner_id: shop });
    print([keys.length, new Set(keys).size, page.meta.replayOf !== null, page.content.length > 0]);
    """
    found = run(script, token=caller.token, baseUrl=world.base_url, shop=SHOP.id)
    assert found == [[3, 1, True, True]]
    assert credits_left(world.store, caller) == 999


def test_a_key_among_the_headers_is_the_only_one_however_it_is_spelled(
    world: Gateway, run: Run
) -> None:
    caller = all_operations_caller(world.store)
    script = """
    const client = new tollway.Client({ token, baseUrl });
    for (const name of ["idempotency-key", "Idempotency-Key"]) {
      const page = await client.orders({ owner_id: shop }, { headers: { [name]: "mine-1" } });
      print(page.meta.replayOf !== null);
    }"""
    found = run(script, token=caller.token, baseUrl=world.base_url, shop=SHOP.id)
    assert found == [False, True]
    assert credits_left(world.store, caller) == 999


def test_errors_are_by_reason(world: Gateway, run: Run) -> None:
    poor = all_operations_caller(world.store, credits_=0)
    outsider = new_caller(world.store, granted=False)
    asker = new_caller(world.store, operations=(BY_NAME["orders"],), credits_=10)
    script = """
    for (const [token, request] of attempts) {
      const client = new tollway.Client({ token, baseUrl });
      try {
        if (request.object_id) await client.account.waybills(request);
        else await client.orders(request);
        print("no error");
      }
      catch (error) {
        print([error.name, error.code, error.reason, error.requestId.length > 20,
               error.authorizeUrl?.startsWith(baseUrl) ?? null]);
      }
    }"""
    attempts = [
        [poor.token, {"owner_id": SHOP.id}],
        [outsider.token, {"owner_id": SHOP.id}],
        [asker.token, {"owner_id": SHOP.id}],
        [asker.token, {"owner_id": "1"}],
        [asker.token, {"owner_id": SHOP.id, "pageSize": 101}],
        ["tw_live_", {"owner_id": SHOP.id}],
        [asker.token, {"object_id": "wb_none"}],
    ]
    found = run(script, baseUrl=world.base_url, attempts=attempts)
    assert [each[:3] for each in found] == [
        ["UsedUpError", 204, "CREDITS_USED_UP"],
        ["PermissionMissingError", 204, "PERMISSION_MISSING"],
        ["NotAuthorizedError", 302, "NOT_AUTHORIZED"],
        ["OwnerUnknownError", 103, "OWNER_UNKNOWN"],
        ["ParameterError", 100, "PARAMETER_INVALID"],
        ["CredentialInvalidError", 401, "CREDENTIAL_INVALID"],
        ["NotFoundError", 404, "WAYBILL_UNKNOWN"],
    ]
    assert all(each[3] for each in found) and found[2][4]
    unreachable = """
    try { await new tollway.Client({ token: "t", baseUrl, retries: 0 }).orders({ owner_id: "1" }); }
    catch (error) { print([error.name, error.message]); }"""
    ((name, message),) = run(unreachable, baseUrl=f"http://127.0.0.1:{free_port()}")
    assert name == "TransportError" and "ECONNREFUSED" in message


def test_it_stays_under_the_limit_by_itself(world: Gateway, today: date, run: Run) -> None:
    caller = new_caller(world.store, rate_limit=3)
    script = """
    const sent = [];
    const timed = (url, init) => { sent.push(performance.now()); return fetch(url, init); };
    const client = new tollway.Client({ token, baseUrl, fetch: timed });
    await client.productAnalysis(request);
    await new Promise((done) => setTimeout(done, 1100));
    sent.splice(0, sent.length, performance.now());
    await Promise.all(Array.from({ length: 7 }, () => client.productAnalysis(request)));
    print(sent);"""
    request = good_request(BY_NAME["product_analysis"], today)
    (sent,) = run(script, token=caller.token, baseUrl=world.base_url, request=request)
    start, *sent = sent
    # A busy machine can only make them later.
    assert sent[3] - start >= 1000 and sent[6] - start >= 2000


def test_thousands_of_orders_are_given_once_each_while_others_arrive_and_change(
    tmp_path: Path, run: Run
) -> None:
    gateway = Gateway(Store(tmp_path / "tollway.db"))
    store, minute_ms = gateway.store, 60_000

    def put(numbers: range, **changes: Any) -> None:
        put_orders(
            store,
            [
                order(f"order-{n:06}", **{"confirm_time": START_MS + n * minute_ms, **changes})
                for n in numbers
            ],
        )

    put(range(3000))
    caller = new_shopper(store)

    def change(at: Any) -> None:
        if at == 150:
            put(range(3000, 3130))
        elif at == 1500:
            put(range(0, 1800, 15), order_status=2, updated_at=START_MS + 1)
            put_orders(store, [order("late", confirm_time=START_MS + 2700 * minute_ms)])

    script = """
    const client = new tollway.Client({ token, baseUrl });
    const found = [];
    for await (const order of client.iterOrders({ owner_id: owner })) {
      found.push(order.order_sn);
      if (found.length === 150 || found.length === 1500) await pause(found.length);
    }
    print(found);
    let opened = 0;
    const cutting = async (url, init) => {
      const response = await fetch(url, init);
      if (!url.includes("/export/file") || ++opened > 3) return response;
      let left = 8_000;
      const cut = new TransformStream({
        transform(piece, controller) {
          controller.enqueue(piece.subarray(0, left));
          left -= piece.length;
          if (left <= 0) opened === 2 ? controller.terminate() : controller.error("cut");
        },
      });
      return new Response(response.body.pipeThrough(cut), response);
    };
    const exporter = new tollway.Client({ token, baseUrl, fetch: cutting });
    const made = await exporter.ordersExport(
      { owner_id: owner, start_time: "2020-01-01", end_time: "2030-01-01" });
    const exported = [];
    const wanted = { owner_id: owner, export_id: made.export_id };
    for await (const order of exporter.iterOrdersExport(wanted)) exported.push(order.order_sn);
    print([opened, made.records, exported]);
    for await (const order of exporter.iterOrdersExport({ ...wanted, after: exported[3] })) {
      print(order.order_sn);
      break;
    }
    try { await exporter.iterOrdersExport({ ...wanted, export_id: "none" }).next(); }
    catch (error) { print(error.name); }"""
    found, (opened, records, exported), fifth, error = run(
        script, change, token=caller.token, baseUrl=gateway.base_url, owner=OWNER
    )
    assert len(found) == len(set(found))
    assert {f"order-{n:06}" for n in range(3000)} <= set(found)
    # The file was cut three times, and each order came once.
    assert (opened, len(exported), len(set(exported))) == (4, records, records)
    assert (fifth, error) == (exported[4], "ParameterError")
    assert gateway.stop() == 0


def test_a_file_is_read_on_after_a_changed_record_and_waits_for_its_reader(run: Run) -> None:
    script = """
    const { createGzip } = await import("node:zlib");
    const line = (name) => JSON.stringify({ order_sn: name }) + "\\n";
    const lines = (...names) => names.map(line).join("");
    const packed = async (first, second) => {
      const gzip = createGzip();
      gzip.write(first);
      await new Promise((done) => gzip.flush(done));
      const start = gzip.read();
      gzip.end(second);
      return [start, Buffer.concat(await gzip.toArray())];
    };
    const asked = [];
    let cut;
    const send = async (url, { signal }) => {
      const after = new URL(url).searchParams.get("after");
      asked.push(after);
      if (after === "c") {
        const refusal = { code: 100, msg: "It changed.", msec: 1, time: 1, data: {} };
        return new Response(JSON.stringify(refusal));
      }
      const [start, end] = after === null
        ? await packed(lines("a", "b", "c"), lines("d"))
        : await packed(lines("d"), lines("e"));
      const body = new ReadableStream({
        start(controller) {
          cut = (reason) => controller.error(reason);
          signal.addEventListener("abort", () => cut(signal.reason));
          controller.enqueue(start);
          const finish = () => { controller.enqueue(end); controller.close(); };
          if (after !== null) setTimeout(finish, 1500);
        },
      });
      return new Response(body, { headers: { "content-type": "application/gzip" } });
    };
    const options = { token: "t", baseUrl: "http://x", fetch: send, timeoutMs: 1000 };
    const client = new tollway.Client(options);
    const found = [];
    for await (const order of client.iterOrdersExport({ owner_id: "1", export_id: "1" })) {
      found.push(order.order_sn);
      if (order.order_sn === "c") cut("cut");
      // For longer than the gateway may be silent.
      if (order.order_sn === "d") await new Promise((done) => setTimeout(done, 2000));
    }
    print([found, asked]);"""
    assert run(script) == [[["a", "b", "c", "d", "e"], [None, "c", "b"]]]


def test_long_numbers_stay_exact_and_texts_as_they_are(package: Path, run: Run) -> None:
    script = """
    const { readJson } = await import("./node_modules/tollway-client/dist/json.js");
    print(texts.map(readJson));"""
    texts = [
        '{"item_id":734567890123456789,"a":"12345678901234567890","b":1.5}',
        '["\\\\\\"99999999999999999999",-99999999999999999999,1700000000000]',
        "[0.30000000000000004,1.2345678901234567e-7,12345678901234567.5]",
    ]
    assert run(script, texts=texts) == [
        [
            {"item_id": "734567890123456789", "a": "12345678901234567890", "b": 1.5},
            ['\\"99999999999999999999', "-99999999999999999999", 1_700_000_000_000],
            [0.30000000000000004, 1.2345678901234567e-7, 12345678901234568],
        ]
    ]


def test_webhooks_are_verified(run: Run) -> None:
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", '{"type": "balance.low", "data": 5}'
    signature = sign(key_of(secret), "msg_1", "1614265330", body.encode())
    headers = {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": "1614265330",
        "Webhook-Signature": f"v1,AAAA {signature}",
    }
    script = """
    const attempts = [
      [body, 1614265330], [body + " ", 1614265330], [body, 1614265330 + 301],
    ];
    for (const [text, nowS] of attempts) {
      try { print((await tollway.verify(text, headers, ["whsec_AAAA", secret], { nowS })).type); }
      catch (error) { print(error.name); }
    }
    // Such as the `Headers` that a framework brings.
    const own = { get: (name) => new Headers(headers).get(name) };
    print((await tollway.verify(body, own, secret, { nowS: 1614265330 })).id);"""
    found = run(script, body=body, headers=headers, secret=secret)
    assert found == ["balance.low", "SignatureError", "SignatureError", "msg_1"]


def test_a_date_and_a_text_with_a_zone_are_taken_wherever_a_time_is(
    world: Gateway, today: date, run: Run
) -> None:
    request = good_request(BY_NAME["coupon_claims"], today)
    start, end = int(request["startTime"]), int(request["endTime"])
    script = """
    const client = new tollway.Client({ token, baseUrl });
    const count = async (startTime, endTime) => {
      const window = { startTime, endTime, sid, type: 4 };
      const { total } = await client.couponClaims({ ...window, page: 1, limit: 1 });
      const claims = [];
      for await (const claim of client.iterCouponClaims(window)) claims.push(claim);
      return [total, claims.length];
    };
    const [from, to] = [new Date(start * 1000), new Date(end * 1000)];
    const written = (at) => at.toISOString().replace(".000Z", "+00:00");
    print([await count(start, end), await count(from, to),
      await count(written(from), written(to))]);
    const without = { startTime: "2026-01-01", endTime: "2026-01-02", sid, type: 4 };
    try { for await (const _ of client.iterCouponClaims(without)); }
    catch (error) { print(error.message); }
    """
    token = all_operations_caller(world.store).token
    names = {"token": token, "baseUrl": world.base_url, "sid": request["sid"]}
    found, refused = run(script, start=start, end=end, **names)
    assert found[0] == found[1] == found[2] and found[0][0] == found[0][1] > 0
    assert refused.startswith("startTime: send seconds, or a time with its zone")


def test_what_is_missing_in_a_call_is_said(run: Run) -> None:
    script = """
    const client = new tollway.Client({ token: "tw_live_x", baseUrl: "https://gateway.example" });
    const iterate = async (loop) => { for await (const _ of loop) return; };
    for (const act of [
      () => new tollway.Client(),
      () => new tollway.Client("tw_live_x"),
      () => client.orders(),
      () => client.issueWaybill(null),
      () => client.costOf("orders"),
      () => client.costOf("order", {}),
      () => iterate(client.iterCouponClaims()),
      () => iterate(client.iterOrdersExport()),
      () => client.account.receipt(),
    ]) {
      try { print(await act()); } catch (error) { print([error.name, error.message]); }
    }"""
    options = '{ token: "tw_…", baseUrl: "https://gateway.example" }'
    whole = f"Give the token and the address: new Client({options})."
    needs = "Give the parameters of {} as an object with their names{}."
    found = run(script)
    assert [name for name, _ in found] == ["TypeError"] * 9
    assert found.pop(3)[1].startswith("Give the parameters of issueWaybill as an object with")
    assert [text for _, text in found] == [
        whole,
        whole,
        needs.format("orders", ": it needs owner_id"),
        needs.format("orders", ": it needs owner_id"),
        'Name a method that is paid for, such as "orders".',
        needs.format("iterCouponClaims", ""),
        needs.format("iterOrdersExport", ": it needs owner_id, export_id"),
        needs.format("account.receipt", ": it needs request_id"),
    ]


def test_the_package_names_itself_and_its_version(run: Run) -> None:
    script = """
    import { createServer } from "node:http";
    const server = createServer((request, response) => {
      print(request.headers["user-agent"]);
      response.end('{"code":401,"msg":"","msec":1,"time":1,"data":{}}');
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const baseUrl = `http://127.0.0.1:${server.address().port}`;
    const client = new tollway.Client({ token: "tw_live_x", baseUrl });
    const owner_id = "1";
    await client.orders({ owner_id }).catch(() => 0);
    await client.orders({ owner_id }, { headers: { "user-agent": "mine" } }).catch(() => 0);
    server.close();
    server.closeAllConnections();
    """
    package = json.loads((ROOT / "sdk/typescript/package.json").read_text())
    assert run(script) == [f"tollway-client-javascript/{package['version']}", "mine"]
