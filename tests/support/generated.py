"""Requests that are made up by the thousand, and what every answer to them must be.

Those of the description come from schemathesis: some as `/openapi.json` allows them, some not. All
other paths get requests of our own: pages of people who are signed in or not, pushes, tokens,
agents, probes.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple

import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.all_operations import all_operations_caller
from tests.support.browsers import Browser, operator_link
from tests.support.gateway import Gateway
from tests.support.late import late
from tests.support.ledger import RUNTIME, Caller
from tests.support.stores import Store
from tollway.contract.reasons import Reason
from tollway.demo.owners import SHOP, USER
from tollway.ledger.tokens import issue_token
from tollway.operations.account_api.operation import PATH as ACCOUNT_PATH
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.coupon_claims.demo import SIDS
from tollway.operations.product_analysis.demo import product_ids
from tollway.pipeline.dry_run import OUTCOME_HEADER

schemathesis, checks = late("schemathesis"), late("schemathesis.specs.openapi.checks")
_AS_DESCRIBED = [
    f"{of}_conformance"
    for of in ("status_code", "content_type", "response_headers", "response_schema")
]
HEAD_TOO_LARGE = 431
ENVELOPE = ["code", "msg", "msec", "time", "data"]
_OPERATION_PATHS = {operation.path for operation in OPERATIONS}


class Sent(NamedTuple):
    """One request as it goes out."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Answered(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Campaign:
    """Callers of one gateway whose answers are all checked, and their charges at the end."""

    def __init__(self, gateway: Gateway, store: Store, *, mapped: bool) -> None:
        self.gateway, self._store, self._mapped = gateway, store, mapped
        self.caller = all_operations_caller(
            store, credits_=10**9, calls=10**9, rate_limit=1_000_000
        )
        self.test_token = _test_token(store, self.caller)
        self._known = {
            "owner_id": SHOP.id,
            "platform_user_id": int(USER.id),
            "product_id": product_ids(1)[0],
            "token_id": self._spare_token_id(),
            "unit": "credits",
            "sid": SIDS[0],
        }
        self.counts: Counter[str] = Counter()
        self._succeeded: set[str] = set()
        self._session = requests.Session()
        self._session.trust_env = False
        self._wire = HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        self._operator = _operator_cookie(gateway, store)

    def _spare_token_id(self) -> str:
        """A token that may be rotated and revoked."""
        account_id = self.caller.account_id
        issued = self._store.do(lambda database: issue_token(database, RUNTIME, account_id))
        return issued.token.id

    def close(self) -> None:
        self._session.close()
        self._wire.close()

    def send_described(self, case: Any) -> None:
        """Sends a case of schemathesis, and checks its answer against the description too."""
        sent = case.as_transport_kwargs(base_url=self.gateway.base_url)
        headers = {name.lower(): value for name, value in (sent.get("headers") or {}).items()}
        if _fails_or_waits(str(headers.get(OUTCOME_HEADER.decode(), ""))):
            del headers[OUTCOME_HEADER.decode()]
        # The account API takes live tokens only.
        is_account = case.operation.path.startswith(ACCOUNT_PATH)
        is_test = self.counts["requests"] % (8 if is_account else 2) == 1
        token = self.test_token if is_test else self.caller.token
        if self.counts["requests"] % 3 == 0:
            self._put_in_known(sent)
        sent["headers"] = {**headers, "authorization": f"Bearer {token}"}
        response = self._session.request(**sent, timeout=60, allow_redirects=False)
        answered = Answered(response.status_code, response.headers, response.content)
        self.check(case.operation.path, answered, case.as_curl_command()[:2000])
        # A head of more than 16 KiB is refused by the server itself.
        if response.status_code != HEAD_TOO_LARGE:
            as_described = [getattr(checks, name) for name in _AS_DESCRIBED]
            case.validate_response(response, checks=as_described)

    def _put_in_known(self, sent: dict[str, Any]) -> None:
        """Ids that exist in place of made-up ones, or no call would find anything."""
        for part in ("params", "json", "data"):
            values = sent.get(part)
            if isinstance(values, dict):
                values |= {name: known for name, known in self._known.items() if name in values}

    def send(self, sent: Sent) -> None:
        answered = self._answer(sent)
        self.check(sent.target.partition("?")[0], answered, repr(sent))

    def _answer(self, sent: Sent) -> Answered:
        for attempt in range(2):
            try:
                self._wire.request(sent.method, sent.target, sent.body or None, sent.headers)
                got = self._wire.getresponse()
                return Answered(got.status, dict(got.getheaders()), got.read())
            except (HTTPException, OSError):
                # An answer may close the connection behind it.
                self._wire.close()
                if attempt:
                    raise
        raise AssertionError

    def check(self, path: str, answered: Answered, what: str) -> None:
        headers = {name.lower(): value for name, value in answered.headers.items()}
        kind = headers.get("content-type", "")
        shown = f"{what}\n{answered.status} {answered.body[:500]!r}"
        assert answered.status < 500, shown
        self.counts["requests"] += 1
        self.counts[f"status {answered.status}"] += 1
        envelope = _json_object(answered.body) if kind.startswith("application/json") else {}
        if list(envelope) == ENVELOPE:
            assert envelope["code"] != 200 and envelope["msg"], shown
            self.counts["envelopes"] += 1
            self.counts[f"code {envelope['code']}"] += 1
            if envelope["code"] == 0:
                self._succeeded.add(headers["x-request-id"])
                # Each waybill of a batch is charged under an id of its own.
                self._succeeded |= {
                    each["request_id"]
                    for each in envelope["data"].get("results", ())
                    if each["code"] == 0
                }
            if not self._mapped and path in _OPERATION_PATHS:
                assert answered.status in (200, 400), shown
            return
        assert path not in _OPERATION_PATHS or not answered.body, shown
        self.counts["pages"] += 1
        # Nothing internal, whatever it is.
        assert b"Traceback" not in answered.body, shown

    def assert_only_successes_were_charged(self) -> None:
        account_id = self.caller.account_id
        rows = self._store.run(
            f"SELECT request_id FROM entry WHERE account_id = '{account_id}' AND kind = 'charge'"
        )
        charged = [request_id for (request_id,) in rows]
        assert len(charged) == len(set(charged))
        others = set(charged) - self._succeeded
        assert not others, sorted(others)
        self.counts["charged"] = len(charged)

    def memory_mib(self) -> float:
        """What the serving processes have in memory without files: SQLite maps its file, which
        grows with every charge and refused call."""
        total = 0
        for pid in self.gateway.workers():
            status = Path(f"/proc/{pid}/status").read_text()
            total += next(int(line.split()[1]) for line in status.splitlines() if "RssAnon" in line)
        return total / 1024

    def headers_of(self, who: str) -> dict[str, str]:
        return {
            "live": {"Authorization": f"Bearer {self.caller.token}"},
            "test": {"Authorization": f"Bearer {self.test_token}"},
            "unknown": {"Authorization": f"Bearer {self.caller.token[:-1]}_"},
            "operator": {"Cookie": self._operator},
            "none": {},
        }[who]


def _fails_or_waits(outcome: str) -> bool:
    """Whether a test call that asks for this outcome would be answered as no other may be."""
    reason = Reason.__members__.get(outcome)
    return outcome.startswith("slow") or (reason is not None and reason.value.status >= 500)


def _json_object(body: bytes) -> dict[str, Any]:
    found = json.loads(body) if body else {}
    return found if isinstance(found, dict) else {}


def _test_token(store: Store, caller: Caller) -> str:
    account_id = caller.account_id
    return store.do(lambda database: issue_token(database, RUNTIME, account_id, kind="test")).text


def _operator_cookie(gateway: Gateway, store: Store) -> str:
    browser = Browser(gateway)
    browser.open(f"/operator/enter?link={operator_link(store)}")
    browser.send("/operator/enter")
    cookies = "; ".join(f"{each.name}={each.value}" for each in browser.client.cookies.jar)
    browser.client.close()
    return cookies


def described_cases(gateway: Gateway) -> st.SearchStrategy[Any]:
    """Cases of all operations of the description, those that it allows and others."""
    schema = schemathesis.openapi.from_dict(gateway.client.get("/openapi.json").json())
    operations = [found.ok() for found in schema.get_all_operations()]

    @cache
    def cases(number: int, mode: Any) -> st.SearchStrategy[Any]:
        return operations[number].as_strategy(mode)

    numbers = st.integers(0, len(operations) - 1)
    return st.tuples(numbers, st.sampled_from(schemathesis.GenerationMode)).flatmap(
        lambda each: cases(*each)
    )


def run(examples: int, strategy: st.SearchStrategy[Any], send: Callable[[Any], None]) -> None:
    """So many examples; each failing one is reported, the first is made small."""

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def each(example: Any) -> None:
        send(example)

    each()
