"""The description of the operations: valid, and complete."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import pytest
from jsonschema_rs import Draft202012Validator

from tests.contract.test_reasons import CODES_LISTED
from tests.support.gateway import Gateway
from tests.support.late import late
from tollway.contract.decoding import declared_fields
from tollway.contract.operation import Operation
from tollway.gateway.oauth import TOKEN_PATH, TokenRefusal
from tollway.gateway.openapi import openapi
from tollway.operations.catalogue import ALL_OPERATIONS
from tollway.webhooks.events import EVENT_TYPES


@cache
def _document(*, mapped: bool) -> dict[str, Any]:
    """Made once: no test changes it."""
    return openapi(ALL_OPERATIONS, "http://127.0.0.1:8080", mapped=mapped)


def _examples(described: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        name: example["value"]
        for response in described["responses"].values()
        for name, example in response["content"]["application/json"]["examples"].items()
    }


@pytest.mark.sqlite
@pytest.mark.parametrize("mapped", [False, True])
def test_it_is_valid_openapi(mapped: bool) -> None:
    late("openapi_spec_validator").validate(_document(mapped=mapped))


def test_the_gateway_sends_it(gateway: Gateway) -> None:
    sent = gateway.client.get("/openapi.json").json()
    assert sent == openapi(ALL_OPERATIONS, gateway.base_url, mapped=False)


@pytest.mark.parametrize("operation", ALL_OPERATIONS, ids=lambda operation: operation.name)
def test_every_code_of_an_operation_has_an_example(operation: Operation) -> None:
    document = _document(mapped=False)
    described = document["paths"][operation.path][operation.method.lower()]
    examples = _examples(described)
    codes, listed = {each["code"] for each in examples.values()}, CODES_LISTED[operation.charged_as]
    # A batch has the others in the results of its requests.
    assert codes == listed or (operation.batch_of is not None and codes <= listed)
    successes = {"DRY_RUN"} if operation.is_file else {"SUCCESS", "DRY_RUN"}
    assert set(examples) == {*successes, *(reason.name for reason in operation.reasons)}
    assert all("{" not in example["msg"] for example in examples.values())
    # One that is blank is missing, so no answer says that a parameter is empty.
    assert all("is not valid: it is empty" not in each["msg"] for each in examples.values())
    # A name that was mistyped, and what it was taken for.
    if unknown := examples.get("PARAMETER_UNKNOWN"):
        words = unknown["msg"].replace(",", "").split()
        assert words[1] != words[words.index("but") + 1]


class Link(msgspec.Struct):
    """Called like an answer of the account API, with as many fields."""

    authorize_url: str
    pieces: int


@pytest.mark.sqlite
def test_a_type_called_like_one_of_ours_does_not_get_its_meanings() -> None:
    first, *others = ALL_OPERATIONS
    document = openapi([replace(first, response_type=Link), *others], "http://a", mapped=False)
    titled = [
        each for each in document["components"]["schemas"].values() if each["title"] == "Link"
    ]
    described = {
        frozenset(each["properties"]): "description" in each["properties"]["authorize_url"]
        for each in titled
    }
    assert described == {
        frozenset({"authorize_url", "pieces"}): False,
        frozenset({"authorize_url", "expires_at"}): True,
    }


def _media_of(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, response in described["responses"].items():
        for kind, media in response["content"].items():
            if kind != "application/gzip":
                yield name, media
    for kind, media in described.get("requestBody", {}).get("content", {}).items():
        yield kind, media


@pytest.mark.sqlite
@pytest.mark.parametrize("mapped", [False, True])
def test_every_example_is_there_and_fits_its_schema(mapped: bool) -> None:
    document = _document(mapped=mapped)
    refer = {"components": document["components"]}

    def check(schema: dict[str, Any], values: list[Any], what: str) -> None:
        # To make one takes much longer than to check a value with it.
        validator = Draft202012Validator({**schema, **refer})
        for value in values:
            error = next(validator.iter_errors(value), None)
            assert error is None, f"{what}: {error}"

    for path, methods in document["paths"].items():
        for described in methods.values():
            for name, media in _media_of(described):
                examples = [each["value"] for each in media.get("examples", {}).values()]
                examples += [media["example"]] if "example" in media else []
                has_fields = media["schema"].get("properties") != {}
                assert examples and (all(examples) or not has_fields), f"{path} {name}"
                check(media["schema"], examples, f"{path} {name}")
                for each in examples:
                    if each.get("code") == 0:
                        assert each["data"], f"{path}: a success without data"
            for each in described.get("parameters", []):
                assert "example" in each or not each["required"], f"{path} {each['name']}"
                if "example" in each:
                    check(each["schema"], [each["example"]], f"{path} {each['name']}")


@pytest.mark.sqlite
def test_generators_of_clients_find_a_type_for_every_value_that_is_sent() -> None:
    for path, methods in _document(mapped=False)["paths"].items():
        for described in methods.values():
            sent = {each["name"]: each["schema"] for each in described.get("parameters", [])}
            for media in described.get("requestBody", {}).get("content", {}).values():
                sent |= media["schema"]["properties"]
            for name, schema in sent.items():
                assert schema.keys() & {"type", "anyOf", "$ref"}, f"{path} {name}"


@pytest.mark.sqlite
def test_generators_of_clients_take_an_empty_answer_for_the_last_kind() -> None:
    document = _document(mapped=False)
    described = document["paths"]["/papi/tool/erps/paging-orders"]["post"]
    envelope = described["responses"]["200"]["content"]["application/json"]["schema"]
    *_, link, nothing = envelope["properties"]["data"]["anyOf"]
    # Shared types: each operation had one of its own, which no program can ask for by name.
    schemas = {
        f"#/components/schemas/{n}": each for n, each in document["components"]["schemas"].items()
    }
    assert "authorize_url" in schemas[link["$ref"]]["properties"]
    assert schemas[nothing["$ref"]]["maxProperties"] == 0


@pytest.mark.sqlite
def test_generators_of_clients_sort_the_operations_by_tags() -> None:
    document = _document(mapped=False)
    described = [*document["paths"].values(), *document["webhooks"].values()]
    tags = [each["tags"] for methods in described for each in methods.values()]
    assert all(len(each) == 1 for each in tags)
    assert {tag for (tag,) in tags} == {each["name"] for each in document["tags"]}


@pytest.mark.sqlite
def test_every_webhook_is_described_with_an_example() -> None:
    webhooks = _document(mapped=False)["webhooks"]
    assert webhooks.keys() == EVENT_TYPES.keys()
    for name, methods in webhooks.items():
        media = methods["post"]["requestBody"]["content"]["application/json"]
        Draft202012Validator(media["schema"]).validate(media["example"])
        assert media["example"]["type"] == name


@pytest.mark.sqlite
def test_every_field_of_an_answer_has_a_meaning() -> None:
    document = _document(mapped=False)
    for name, schema in document["components"]["schemas"].items():
        for field, described in schema.get("properties", {}).items():
            assert described.get("description"), f"{name}.{field}"


@pytest.mark.parametrize("operation", ALL_OPERATIONS, ids=lambda operation: operation.name)
def test_every_field_is_described_in_every_spelling(operation: Operation) -> None:
    document = _document(mapped=False)
    described = document["paths"][operation.path][operation.method.lower()]
    names = {each["name"] for each in described["parameters"] if each["in"] == "query"}
    if "requestBody" in described:
        contents = described["requestBody"]["content"].values()
        (names,) = {frozenset(media["schema"]["properties"]) for media in contents}
    expected = set()
    for name, field, *_ in declared_fields(operation.request_type):
        expected |= {name} | ({field.other_spelling} if field.other_spelling else set())
    assert names == expected


def test_with_mapped_statuses_each_reason_stands_under_its_own() -> None:
    document = _document(mapped=True)
    for operation in ALL_OPERATIONS:
        described = document["paths"][operation.path][operation.method.lower()]
        for reason in operation.reasons:
            response = described["responses"][str(reason.value.status)]
            assert reason.name in response["content"]["application/json"]["examples"]


def test_where_clients_obtain_tokens_is_described_with_every_error() -> None:
    document = _document(mapped=False)
    described = document["paths"][TOKEN_PATH]["post"]
    sent = {status: [*each["headers"]] for status, each in described["responses"].items()}
    assert sent.pop("429") == ["X-Request-Id", "Retry-After"]
    assert all(each == ["X-Request-Id"] for each in sent.values())
    for reason in TokenRefusal:
        media = described["responses"][str(reason.value.status)]["content"]["application/json"]
        assert media["examples"][reason.name]["value"]["error"] == reason.value.error
    flow = document["components"]["securitySchemes"]["client"]["flows"]["clientCredentials"]
    assert flow["tokenUrl"] == f"http://127.0.0.1:8080{TOKEN_PATH}"
