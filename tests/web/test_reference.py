"""The API reference: complete, in both languages, and its examples work as they are shown."""

import html
import json
import re
from collections.abc import Iterator
from datetime import date

import pytest

import tollway_client
from tests.docs.pages import DOCS, ROOT
from tests.support.all_operations import ask
from tests.support.gateway import Gateway
from tests.support.ledger import Caller, new_caller
from tests.support.stores import Store
from tollway.contract.answer_fields import placed_fields
from tollway.contract.decoding import declared_fields
from tollway.contract.operation import Encoding, Operation
from tollway.contract.reasons import Reason
from tollway.contract.receipt import CHARGED
from tollway.contract.sample_refusal import sample_refusal
from tollway.ledger.creation_limits import Counted
from tollway.operations.account_api import ACCOUNT_OPERATIONS
from tollway.operations.catalogue import ALL_OPERATIONS, BY_NAME, OPERATIONS
from tollway.operations.demo_data import EXAMPLE_DAY
from tollway.operations.examples import EXAMPLES
from tollway.web.code_samples import SIGNATURE_SAMPLES
from tollway.webhooks.events import EVENT_TYPES

pytestmark = pytest.mark.sqlite
every_operation = pytest.mark.parametrize(
    "operation", [each for each in ALL_OPERATIONS if not each.is_file], ids=lambda each: each.name
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(Store(tmp_path_factory.mktemp("reference") / "tollway.db"))
    yield gateway
    assert gateway.stop() == 0


@pytest.fixture(scope="module")
def tester(served: Gateway) -> Caller:
    return new_caller(served.store, operations=OPERATIONS, kind="test", rate_limit=1000)


def _page(served: Gateway, path: str, language: str = "en") -> str:
    answer = served.client.get(path, headers={"Accept-Language": language})
    assert answer.status_code == 200
    return html.unescape(answer.text)


@pytest.mark.parametrize(
    "operation", (*ALL_OPERATIONS, *ACCOUNT_OPERATIONS), ids=lambda each: each.name
)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_parameter_field_and_code_is_shown(
    served: Gateway, operation: Operation, language: str
) -> None:
    page = _page(served, f"/docs/{operation.name}", language)
    assert f"{operation.method} {operation.path}" in page
    for name, field, _, others in declared_fields(operation.request_type):
        assert all(f">{each}<" in page or f"{each}" in page for each in (name, *others))
        assert field.kind.expected.fill(language, {}) in page
        assert (field.meaning in page) == (language == "en")
    for reason in operation.reasons:
        assert reason.name in page
        assert f"{reason.value.code} {reason.name}<" in page
    for path, field in placed_fields(operation.response_type):
        assert f">{path}<" in page and f">{field.json_type}<" in page
        assert field.meaning is not None and field.meaning.fill(language, {}) in page
        assert field.other_spelling is None or f">{field.other_spelling}<" in page
    for code in {reason.value.code for reason in operation.reasons}:
        assert f'"code": {code},' in page
    for name in ("curl", "Python", "JavaScript", "PHP", "Java"):
        assert f"<h3>{name}</h3>" in page
    assert "data-try" in page


@pytest.mark.parametrize(
    "operation", (*ALL_OPERATIONS, *ACCOUNT_OPERATIONS), ids=lambda each: each.name
)
def test_two_spellings_are_two_of_one_parameter(operation: Operation) -> None:
    if Reason.SPELLINGS_CONFLICT not in operation.reasons:
        assert not any(each.other_names for each in declared_fields(operation.request_type))
        return
    said = sample_refusal(Reason.SPELLINGS_CONFLICT, operation).message("en")
    one, other = said.partition(" are two spellings")[0].split(" and ")
    assert one != other


def _daily(counted: Counted) -> str:
    most, things = counted.value
    return f"This account has reached its daily limit of {most} {things.en}: try again tomorrow."


_LIMITS = {
    "tokens/make": (
        "This account has reached its limit of 200 valid tokens: revoke those that are not used."
    ),
    "tokens/rotate": _daily(Counted.ROTATIONS),
    "webhooks/make": _daily(Counted.WEBHOOKS),
    "webhooks/rotate": _daily(Counted.SECRETS),
    "webhooks/test": _daily(Counted.EVENTS),
    "alerts/set": _daily(Counted.ALERTS),
}


@pytest.mark.parametrize(
    "operation", (*ALL_OPERATIONS, *ACCOUNT_OPERATIONS), ids=lambda each: each.name
)
def test_a_sample_refusal_says_what_can_be_true(operation: Operation) -> None:
    samples = {each: sample_refusal(each, operation).message("en") for each in operation.reasons}
    fields = declared_fields(operation.request_type)
    required = [f"Parameter {each.name} is missing" for each in fields if each.required]
    assert (Reason.PARAMETER_MISSING in samples) == bool(required)
    assert samples.get(Reason.PARAMETER_MISSING, "").partition(":")[0] in (*required, "")
    assert (Reason.PARAMETER_UNKNOWN in samples) == bool(fields)
    assert not any("arameter name " in each for each in samples.values())
    limit = samples.get(Reason.ACCOUNT_LIMIT_REACHED)
    assert limit is None or limit == _LIMITS[operation.path.partition("/v1/")[2]]
    # A token that is limited to an operation may call it.
    limited_to = samples[Reason.TOKEN_NOT_FOR_THIS].partition(":")[0].rpartition(" ")[2]
    assert limited_to in BY_NAME and limited_to != operation.charged_as
    in_query = operation.encoding is Encoding.QUERY
    part = "query string" if in_query else "request body"
    assert samples[Reason.BODY_UNREADABLE].startswith(f"The {part} cannot be read: ")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_event_is_shown_as_it_comes(served: Gateway, language: str) -> None:
    page = _page(served, "/docs/events", language)
    listed = (DOCS / "call/webhooks.md").read_text(encoding="utf-8")
    for name, kind in EVENT_TYPES.items():
        assert f">{name}<" in page
        assert (kind.reports in page) == (language == "en")
        assert json.dumps(kind.example, ensure_ascii=False, separators=(",", ":")) in page
        assert f"| `{name}` |" in listed
        assert all(f"{field} | null" in page for field in kind.nullable)
    for language_name, text in SIGNATURE_SAMPLES:
        assert f"<h3>{language_name}</h3>" in page and text.strip() in page


def test_a_sample_has_numbers_where_its_package_takes_numbers(served: Gateway) -> None:
    page = _page(served, "/docs/orders")
    assert "    pageSize=20,\n" in page and "  pageSize: 20,\n" in page
    # An id of digits is a text.
    assert "owner_id='880012001'" in page and 'owner_id: "880012001"' in page


def test_a_receipt_is_shown_in_the_language_of_its_reader(served: Gateway) -> None:
    for language in ("en", "zh"):
        assert f'"why": "{CHARGED.said(language)}"' in _page(
            served, "/docs/account_receipt", language
        )


def test_a_page_of_another_origin_is_not_allowed_to_call(served: Gateway) -> None:
    headers = {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
    answer = served.client.options(OPERATIONS[0].path, headers=headers)
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert "no CORS headers" in _page(served, "/docs")


def test_the_other_pages_list_operations_codes_and_the_sandbox(served: Gateway) -> None:
    index = _page(served, "/docs")
    for operation in (*ALL_OPERATIONS, *ACCOUNT_OPERATIONS):
        assert f'href="/docs/{operation.name}"' in index
    codes = _page(served, "/docs/codes")
    assert all(reason.name in codes for reason in Reason)
    sandbox = _page(served, "/docs/sandbox")
    for value in ("880012001", "880012002", "116385041", "620145000137", "YTO", "DBKD"):
        assert value in sandbox
    assert "carrier:refused" in sandbox
    # What a reader of the answers could not guess.
    assert "the carrier's answer: 1 issued, 0 refused" in _page(served, "/docs/waybills")
    assert "order_status" in _page(served, "/docs/orders", "zh").partition("<table")[0]
    for header in ("Idempotency-Key", "X-Tollway-Reason", "Retry-After"):
        assert header in index
    assert "沙箱中的数据" in _page(served, "/docs/sandbox", "zh")


@every_operation
def test_the_example_request_works_in_the_sandbox_and_the_answer_has_its_fields(
    served: Gateway, tester: Caller, today: date, operation: Operation
) -> None:
    """As the reference shows it, and as the OpenAPI document does."""
    example = EXAMPLES[operation.name]
    for day in (today, EXAMPLE_DAY):
        reply = ask(served, operation, tester.token, dict(example.request(day)))
        assert reply.code == 0, (day, reply.msg)
        assert set(reply.data) >= {
            name
            for name in example.answer.__struct_fields__
            if getattr(example.answer, name) is not None or name in reply.data
        }


def test_a_refused_answer_is_shown_as_the_sandbox_gives_it(
    served: Gateway, tester: Caller, today: date
) -> None:
    operation = BY_NAME["waybills"]
    page = _page(served, f"/docs/{operation.name}")
    sent = dict(EXAMPLES[operation.name].request(today))
    for reason in operation.reasons:
        reply = ask(served, operation, tester.token, sent, {"X-Tollway-Outcome": reason.name})
        assert f'"code": {reply.code},\n  "msg": {json.dumps(reply.msg)},' in page
        assert f"X-Tollway-Reason: {reply.headers['x-tollway-reason']}\n" in page


def test_trying_is_a_script_of_the_gateway_alone(served: Gateway) -> None:
    page = served.client.get("/docs/orders")
    assert re.findall(r'<script src="([^"]+)"', page.text) == ["/pages.js", "/reference.js"]
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "data-try" in page.text and served.client.get("/reference.js").status_code == 200


def test_the_packages_can_be_installed_without_a_checkout(served: Gateway) -> None:
    page = served.client.get("/docs").text
    assert f"pip install ./tollway_client-{tollway_client.__version__}-py3-none-any.whl" in page
    package = json.loads((ROOT / "sdk/typescript/package.json").read_text(encoding="utf-8"))
    assert f"npm install ./tollway-client-{package['version']}.tgz" in page
    assert "./sdk" not in page


def test_the_front_page_leads_to_the_reference_of_each_operation(served: Gateway) -> None:
    page = _page(served, "/")
    for each in OPERATIONS:
        assert f'<a href="/docs/{each.name}">{each.title}</a>' in page


@pytest.mark.parametrize("path", ["codes", "sandbox", "events"])
def test_a_page_of_the_reference_offers_the_others_and_not_itself(
    served: Gateway, path: str
) -> None:
    offered = re.findall(r'<a class="button" href="([^"]+)"', _page(served, f"/docs/{path}"))
    others = {"codes", "sandbox", "events"} - {path}
    assert {each for each in offered if each.startswith("/docs/")} == {
        f"/docs/{each}" for each in others
    }


def test_a_long_page_of_the_reference_leads_to_the_form_at_its_end(served: Gateway) -> None:
    page = _page(served, "/docs/waybills")
    assert '<a class="button" href="#try">Try it in the sandbox</a>' in page
    assert 'id="try"' in page


def test_the_heading_of_the_codes_is_said_once(served: Gateway) -> None:
    assert re.findall(r"<h[12][^>]*>Codes</h", _page(served, "/docs/codes")) == ["<h1>Codes</h"]
