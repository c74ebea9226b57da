"""The model's own parts: that it shares no code, and what it takes for one moment."""

import ast
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.model.client import Answer
from tests.model.comparing import differences, fitting
from tests.model.expected.accounts import Account, Between
from tests.model.expected.deciding import Permission
from tests.model.expected.history import History, Span
from tests.model.expected.model import Model
from tests.model.expected.orders import Shop
from tests.model.expected.outcomes import Ask, Consent

# Nothing here has a database.
pytestmark = pytest.mark.sqlite

EXPECTED = Path(__file__).parent / "expected"
OWNER = "880012001"
TOKEN = "a token"
ALL = Between(0, 10**15)


def test_the_model_imports_nothing_but_the_standard_library() -> None:
    for file in EXPECTED.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                is_standard = name.split(".")[0] in sys.stdlib_module_names
                assert is_standard or name.startswith("tests.model.expected."), f"{file}: {name}"


def test_an_answer_may_show_any_value_between_its_request_and_its_arrival() -> None:
    history = History("first")
    before_s = monotonic()
    with history.changing_to("second"):
        during_s = monotonic()
    after_s = monotonic()
    assert history.within(Span(before_s, before_s)) == ["first"]
    assert history.within(Span(before_s, during_s)) == ["first", "second"]
    assert history.within(Span(during_s, during_s)) == ["first", "second"]
    assert history.within(Span(after_s, after_s)) == ["second"]


def test_a_change_may_be_seen_late_but_not_later_than_it_may() -> None:
    history = History("first", seen_after_s=60)
    with history.changing_to("second"):
        pass
    now_s = monotonic()
    assert history.within(Span(now_s, now_s)) == ["first", "second"]
    assert history.within(Span(now_s + 61, now_s + 61)) == ["second"]
    history.forget(now_s)
    assert history.within(Span(now_s, now_s)) == ["first", "second"]
    history.forget(now_s + 61)
    assert history.within(Span(now_s + 61, now_s + 61)) == ["second"]


def test_a_page_of_two_moments_is_of_none() -> None:
    model = _model_with(["a"])
    sent_s = monotonic()
    _push(model, ["b", "c"])
    span = Span(sent_s, monotonic())
    ask = Ask("orders", {"owner_id": OWNER}, TOKEN)
    outcomes = list(model.outcomes(ask, span, ALL))
    one, other = [each.data for each in outcomes]
    assert one is not None
    assert other is not None
    assert [one["totalElements"], other["totalElements"]] == [1, 3]
    for data in (one, other):
        assert fitting(outcomes, _answer(data, span))
    mixed = {**one, "content": other["content"]}
    assert not fitting(outcomes, _answer(mixed, span))
    assert list(differences(other, {**other, "page": 1})) == ["data.page is 1 instead of 0"]


@pytest.mark.parametrize("wrong", [{"page": 0.0}, {"page": False}, {"extra": None}])
def test_what_is_equal_in_python_only_is_not_equal(wrong: dict[str, Any]) -> None:
    model = _model_with(["a"])
    span = Span(monotonic(), monotonic())
    outcomes = list(model.outcomes(Ask("orders", {"owner_id": OWNER}, TOKEN), span, ALL))
    (outcome,) = outcomes
    assert outcome.data is not None
    assert not fitting(outcomes, _answer({**outcome.data, **wrong}, span))


def _model_with(order_sns: list[str]) -> Model:
    model, account = Model(0.0), Account("acc_1", "caller", {"credits": 10})
    model.add_token(TOKEN, "tok_1", account, is_test=False)
    model.permissions[account.id, "orders"] = History(Permission(None))
    model.owners["shop", OWNER] = History(True)
    model.consents[account.id, "shop", OWNER] = History(Consent("shop", OWNER, "con_1"))
    _push(model, order_sns)
    return model


def _push(model: Model, order_sns: list[str]) -> None:
    shop, changed = model.shops[OWNER].now.with_records([_order(each) for each in order_sns])
    assert changed == len(order_sns)
    assert isinstance(shop, Shop)
    with model.shops[OWNER].changing_to(shop):
        pass


def _order(order_sn: str) -> dict[str, Any]:
    return {
        "owner_id": OWNER,
        "order_sn": order_sn,
        "updated_at": 1_768_406_400_000,
        "confirm_time": 1_768_406_400_000,
        "order_status": 1,
        "receiver_name": "张小明",
        "receiver_phone": "13812341234",
        "receiver_address": "文三路478号",
        "goods_name": "折叠露营椅",
        "pay_amount": 89.9,
    }


def _answer(data: dict[str, Any], span: Span) -> Answer:
    return Answer(200, {}, {"code": 0, "data": data}, span, ALL)
