"""The kinds of calls: what each sends, what it needs, and what its answer says."""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from itertools import count
from time import monotonic
from typing import Any, NamedTuple

import httpx

from tests.model.expected.deciding import SANDBOX_PRODUCTS
from tests.model.expected.history import Span
from tests.rights.rights import BROKEN_OFF, SUCCESS, Account, Needs, Outcome, Right, Token
from tests.support.all_operations import good_request
from tests.support.waybills import request as waybill_request
from tollway.contract.operation import Encoding, Operation, Unit
from tollway.demo.owners import SHOP
from tollway.operations.catalogue import ALL_OPERATIONS, OPERATIONS
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.orders.operation import ORDERS
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.operations.promotion_material.operation import PROMOTION_MATERIAL
from tollway.operations.waybills.demo import WP_CODE
from tollway.operations.waybills.operation import WAYBILLS

_BY_NAME = {each.name: each for each in ALL_OPERATIONS}
_IN_A_BATCH = 2
_DRY_RUN = {"X-Tollway-Dry-Run": "1"}
# One process sends an account two files at once.
_FILES_MANY = frozenset({"FILES_TOO_MANY"})
_keys = count(1)


class Kind(NamedTuple):
    """A kind of calls. Without an operation it needs nothing but the token."""

    name: str
    method: str
    path: str
    operation: Operation | None = None
    scope: str | None = None
    is_paid: bool = False
    # Refused if it could not be paid, though it takes nothing.
    is_dry_run: bool = False
    is_test: bool = False
    is_file: bool = False
    # Refused with this reason if nothing else refuses it.
    refused_with: str = ""


def _of(operation: Operation, name: str = "", **more: Any) -> Kind:
    scope = None if operation.consent is None else operation.consent.scope
    charged = next(each for each in OPERATIONS if each.name == operation.charged_as)
    usual = {"scope": scope, "is_paid": True}
    return Kind(
        name or operation.name, operation.method, operation.path, charged, **{**usual, **more}
    )


REPETITION = "a key again"
SAME_WAYBILL = "the same waybill"
WRONG = "a request without its parameters"
_BY_NUMBER, _CHANGED, _BATCH = "orders_by_number", "orders_changed", "waybills_batch"
BALANCE, RECEIPT, LABEL = "balance", "receipt", "label"
ORDERS_FILE, CLAIMS_FILE = "orders_export_file", "coupon_claims_export_file"
KINDS = (
    *map(_of, OPERATIONS),
    _of(_BY_NAME[_BY_NUMBER]),
    _of(_BY_NAME[_CHANGED]),
    _of(_BY_NAME[_BATCH], scope="waybills"),
    _of(_BY_NAME[ORDERS_FILE], is_paid=False, is_file=True),
    _of(_BY_NAME[CLAIMS_FILE], is_paid=False, is_file=True),
    _of(PROMOTION_MATERIAL, REPETITION, is_paid=False),
    _of(WAYBILLS, SAME_WAYBILL, is_paid=False),
    _of(ORDERS, "a dry run of orders", is_paid=False, is_dry_run=True),
    _of(COUPON_CLAIMS, "a dry run of claims", is_paid=False, is_dry_run=True),
    _of(PRODUCT_ANALYSIS, "a test call", is_paid=False, is_test=True),
    _of(COUPON_CLAIMS, WRONG, is_paid=False, refused_with="PARAMETER_MISSING"),
    Kind(BALANCE, "GET", "/account/v1/balance"),
    Kind(RECEIPT, "GET", "/receipts/"),
    Kind(LABEL, "GET", "/account/v1/waybills/label", scope="waybills"),
)
BY_KIND = {each.name: each for each in KINDS}


def can_make(token: Token, kind: Kind) -> bool:
    """Whether calls of a kind are made with a token at all."""
    if token.is_test or kind.is_test:
        return token.is_test and kind.is_test
    # What a limited token sees of the account has tests of its own.
    return token.operation is None or kind.operation is not None


def needs_of(kind: Kind, account: Account, token: Token, opened: Mapping[str, Right]) -> Needs:
    """What a call needs that is sent now."""
    rights = [token.valid]
    if kind.scope is not None:
        rights.append(account.consents[kind.scope])
    if kind.operation is None:
        return Needs(rights, None, None, None, frozenset())
    name, unit = kind.operation.name, kind.operation.balance_unit
    rights += [opened[name], account.active, account.permitted[name]]
    if kind.is_paid or kind.is_dry_run:
        rights.append(account.funds[unit])
    if token.operation not in (None, name):
        rights.append(Right("TOKEN_NOT_FOR_THIS", is_held=False))
    is_capped = token.cap is not None and kind.operation.unit is Unit.CREDITS
    left = token.cap.credits_max - token.cap.spent if token.cap and is_capped else None
    return Needs(
        rights,
        account.prices[name] if kind.is_paid else None,
        account.rates[name],
        # Like a balance, a cap is looked at before the parameters.
        left if kind.is_paid or kind.is_dry_run or kind.refused_with else None,
        _also_refused_with(kind, unit, account),
    )


def _also_refused_with(kind: Kind, unit: str, account: Account) -> frozenset[str]:
    if kind.refused_with:
        # A balance is looked at before the parameters, if it was not seen to be enough.
        return frozenset({account.funds[unit].reason})
    return _FILES_MANY if kind.is_file else frozenset()


class Caller:
    """Sends calls, one kind as another, and reads their answers."""

    def __init__(self, today: date) -> None:
        self._today = today

    async def prepare(self, door: httpx.AsyncClient, account: Account) -> None:
        """Makes the calls that others refer to: what they paid is noted as for any other."""
        token = account.base
        account.kept[REPETITION] = f"kept {next(_keys)}"
        account.kept[SAME_WAYBILL] = json.dumps(waybill_request(WP_CODE))
        answers = [
            await self._answer(door, BY_KIND[name], account, token)
            for name in (REPETITION, SAME_WAYBILL)
        ]
        window = {"start_time": "2020-01-01 00:00:00", "end_time": "2020-01-02 00:00:00"}
        claims = good_request(COUPON_CLAIMS, self._today)
        for file, sent in {
            ORDERS_FILE: {"owner_id": SHOP.id, **window},
            CLAIMS_FILE: {name: claims[name] for name in ("startTime", "endTime", "sid", "type")},
        }.items():
            path = _BY_NAME[file.removesuffix("_file")].path
            answers.append(await door.post(path, json=sent, headers=_bearer(token)))
            account.kept[file] = answers[-1].json()["data"]["export_id"]
        for answer in answers:
            outcome = _outcome(answer)
            assert outcome.reason == SUCCESS, answer.text
            if outcome.paid:
                account.paid[outcome.request_id] = ("credits", outcome.paid)
        account.kept[LABEL] = answers[1].json()["data"]["objectId"]
        account.kept[RECEIPT] = _outcome(answers[0]).request_id

    async def call(
        self, door: httpx.AsyncClient, kind: Kind, account: Account, token: Token
    ) -> tuple[Span, list[Outcome]]:
        """What became of a call; of a batch, what became of each of its requests."""
        sent_s = monotonic()
        try:
            answer = await self._answer(door, kind, account, token)
        except httpx.RemoteProtocolError:
            if not kind.is_file:
                raise
            return Span(sent_s, monotonic()), [Outcome(BROKEN_OFF, "", 0)]
        span = Span(sent_s, monotonic())
        return span, list(_outcomes(answer, kind))

    async def _answer(
        self, door: httpx.AsyncClient, kind: Kind, account: Account, token: Token
    ) -> httpx.Response:
        path, headers, given = kind.path, _bearer(token), self._given(kind, account)
        if kind.name == RECEIPT:
            path += account.kept[RECEIPT]
        if kind.name == REPETITION:
            headers["Idempotency-Key"] = account.kept[REPETITION]
        if kind.is_dry_run:
            headers |= _DRY_RUN
        return await door.request(kind.method, path, headers=headers, **given)

    def _given(self, kind: Kind, account: Account) -> dict[str, Any]:
        """The parameters of a call, as httpx takes them."""
        own: dict[str, Callable[[], dict[str, Any]]] = {
            BALANCE: dict,
            RECEIPT: dict,
            WRONG: lambda: {"data": {"page": "1"}},
            LABEL: lambda: {"params": {"object_id": account.kept[LABEL], "format": "zpl"}},
            SAME_WAYBILL: lambda: {"json": json.loads(account.kept[SAME_WAYBILL])},
            CLAIMS_FILE: lambda: {"params": {"export_id": account.kept[CLAIMS_FILE]}},
            ORDERS_FILE: lambda: {
                "params": {"owner_id": SHOP.id, "export_id": account.kept[ORDERS_FILE]}
            },
            _BATCH: lambda: {
                "json": {"waybills": [waybill_request(WP_CODE) for _ in range(_IN_A_BATCH)]}
            },
            _BY_NUMBER: lambda: {"json": {"owner_id": SHOP.id, "order_sn": ["no such order"]}},
            _CHANGED: lambda: {"json": {"owner_id": SHOP.id, "pageSize": 5}},
        }
        return own.get(kind.name, lambda: self._usual(kind))()

    def _usual(self, kind: Kind) -> dict[str, Any]:
        assert kind.operation is not None
        sent = good_request(kind.operation, self._today)
        if kind.is_test:
            sent["product_id"] = SANDBOX_PRODUCTS[0]
        as_what = {Encoding.QUERY: "params", Encoding.FORM: "data"}
        return {as_what.get(kind.operation.encoding, "json"): sent}


def _bearer(token: Token) -> dict[str, str]:
    return {"Authorization": f"Bearer {token.text}"}


def _outcomes(answer: httpx.Response, kind: Kind) -> Iterable[Outcome]:
    outcome = _outcome(answer)
    if kind.name == _BATCH and outcome.reason == SUCCESS:
        for each in answer.json()["data"]["results"]:
            waybill = each["waybill"]
            taken = 0 if waybill is None else int(waybill["withholding_money"])
            yield Outcome(each["reason"], each["request_id"], taken)
    elif kind.is_paid and kind.operation is PRODUCT_ANALYSIS and outcome.reason == SUCCESS:
        # It reports no price; nothing here changes it.
        yield outcome._replace(paid=PRODUCT_ANALYSIS.default_price)
    elif kind.refused_with == outcome.reason:
        # As good as a success: nothing refused it before.
        yield outcome._replace(reason=SUCCESS)
    else:
        yield outcome


def _outcome(answer: httpx.Response) -> Outcome:
    request_id = answer.headers["x-request-id"]
    if not answer.headers["content-type"].startswith("application/json"):
        # A file.
        return Outcome(SUCCESS, request_id, 0)
    envelope = answer.json()
    if envelope["code"]:
        return Outcome(answer.headers["x-tollway-reason"], request_id, 0)
    return Outcome(SUCCESS, request_id, int(envelope["data"].get("withholding_money", 0)))
