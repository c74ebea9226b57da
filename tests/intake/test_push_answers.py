"""What the sender of a push learns from its answer: what is wrong with which record, and that a
path is none to push to."""

from collections.abc import Iterator

import httpx
import msgspec
import pytest

from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.orders import order, sealer_of
from tests.support.pushes import EVERYONE, SOURCE, push
from tests.support.stores import Store
from tollway.intake.rejects import forget_rejects
from tollway.intake.sources import add_source


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[Gateway]:
    with Gateway(Store(tmp_path_factory.mktemp("answers") / "tollway.db")) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def secret(served: Gateway) -> str:
    store = served.store
    return store.do(
        lambda database: add_source(database, sealer_of(store), SOURCE, EVERYONE, RUNTIME)
    ).secret


def test_the_sender_learns_what_is_wrong_with_which_record(served: Gateway, secret: str) -> None:
    records = [order("sn-1"), order("sn-2", order_status=7), order("sn-3"), {"orders": []}]
    answer = push(served, secret, msgspec.json.encode(records)).json()
    assert (answer["stored"], answer["rejected"]) == (2, 2)
    status, wrapped = answer["problems"]
    assert (status["record"], wrapped["record"]) == (2, 4)
    assert status["reason"].startswith("order_status: ")
    assert wrapped["reason"].startswith("owner_id: it is missing")


@pytest.mark.parametrize("shape", ["array", "lines"])
def test_a_record_that_would_take_long_to_parse_is_rejected_alone(
    served: Gateway, secret: str, shape: str
) -> None:
    lists = order("sn-bad", goods_spec="LISTS").items()
    records = [order(f"{shape}-1"), dict(lists), order(f"{shape}-2")]
    written = [msgspec.json.encode(each) for each in records]
    written[1] = written[1].replace(b'"LISTS"', b"[" + b"[]," * 20_000 + b"0]")
    body = b"\n".join(written) if shape == "lines" else b"[" + b",".join(written) + b"]"
    answer = push(served, secret, body).json()
    assert (answer["stored"], answer["rejected"]) == (2, 1)
    (problem,) = answer["problems"]
    assert problem["record"] == 2
    assert problem["reason"].startswith("the record is over 1 MiB, or has over 16,384 values;")


def test_of_many_wrong_records_the_first_ten_are_named(served: Gateway, secret: str) -> None:
    answer = push(served, secret, msgspec.json.encode([{"number": n} for n in range(30)])).json()
    assert answer["rejected"] == 30
    assert [each["record"] for each in answer["problems"]] == list(range(1, 11))


def test_an_answer_without_a_wrong_record_has_no_problems(served: Gateway, secret: str) -> None:
    answer = push(served, secret, msgspec.json.encode([order("sn-9")])).json()
    assert set(answer) == {"stored", "unchanged", "rejected"}


def test_507_of_a_source_so_many_wrong_records_are_kept_and_no_more(
    served: Gateway,
) -> None:
    """Its good records are stored, and those that are kept already acknowledged."""
    store, source = served.store, "faulty"
    secret = store.do(
        lambda database: add_source(database, sealer_of(store), source, EVERYONE, RUNTIME)
    ).secret

    def answer(*records: object) -> httpx.Response:
        return push(served, secret, msgspec.json.encode(records), source=source)

    known, other = {"number": 1}, {"number": 2}
    assert answer(known).json()["rejected"] == 1
    columns = "kind, reason, received_at_s, sealed"
    store.run(
        f"INSERT INTO rejected_record (source, id, {columns}) "
        "WITH RECURSIVE made (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM made WHERE n < 9999) "
        f"SELECT source, id || n, {columns} FROM rejected_record, made WHERE source = 'faulty'"
    )
    refused = answer(other, order("full-1"))
    assert (refused.status_code, refused.headers["retry-after"]) == (507, "600")
    assert refused.json()["error"].startswith("10,000 rejected records of this source")
    stored = {"stored": 0, "unchanged": 1, "rejected": 0}
    assert answer(order("full-1")).json() == stored
    assert answer(known).status_code == 200
    assert store.do(lambda database: forget_rejects(database, source, RUNTIME)) == 10_000
    assert answer(other).json()["rejected"] == 1


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer none"}], ids=["plain", "token"])
@pytest.mark.parametrize(
    "path",
    [
        *("/push/order", "/push/", "/push", "/push/orders/"),
        # As it is sent by a program whose address of the gateway ends with a slash.
        *("//push/orders", "///push//orders", "/push//orders", "//push"),
        # A proxy that has a rule for pushes may not know this spelling.
        "/push/%6frders",
    ],
)
def test_404_a_path_that_takes_no_push_is_never_an_acknowledgement(
    served: Gateway, secret: str, path: str, headers: dict[str, str]
) -> None:
    answer = served.client.post(served.base_url + path, content=b"[]", headers=headers)
    assert answer.status_code == 404
    assert answer.json() == {
        "error": "Nothing is pushed to this path: send to /push/coupon-claims or /push/orders."
    }
    assert len(answer.headers["x-request-id"]) == 26


def test_a_path_that_only_begins_like_a_push_is_an_unknown_operation(served: Gateway) -> None:
    answer = served.client.post("/pushes/orders", content=b"[]")
    assert (answer.status_code, answer.json()["code"]) == (200, 404)
