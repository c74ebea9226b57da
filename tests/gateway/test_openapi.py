"""The description of the operations: valid, and complete."""

from typing import Any

import pytest
from openapi_spec_validator import validate

from tests.contract.test_reasons import CODES_LISTED
from tests.support.gateway import Gateway
from tollway.contract.decoding import declared_fields
from tollway.contract.operation import Operation
from tollway.gateway.openapi import openapi
from tollway.gateway.token_request import TOKEN_PATH, Unobtained
from tollway.operations.catalogue import WITH_COMPANIONS


def _examples(described: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        name: example["value"]
        for response in described["responses"].values()
        for name, example in response["content"]["application/json"]["examples"].items()
    }


@pytest.mark.sqlite
@pytest.mark.parametrize("mapped", [False, True])
def test_it_is_valid_openapi(mapped: bool) -> None:
    validate(openapi(WITH_COMPANIONS, "http://127.0.0.1:8080", mapped=mapped))


def test_the_gateway_sends_it(gateway: Gateway) -> None:
    sent = gateway.client.get("/openapi.json").json()
    assert sent == openapi(WITH_COMPANIONS, gateway.base_url, mapped=False)


@pytest.mark.parametrize("operation", WITH_COMPANIONS, ids=lambda operation: operation.name)
def test_every_code_of_an_operation_has_an_example(operation: Operation) -> None:
    document = openapi(WITH_COMPANIONS, "http://127.0.0.1:8080", mapped=False)
    described = document["paths"][operation.path][operation.method.lower()]
    examples = _examples(described)
    codes, listed = {each["code"] for each in examples.values()}, CODES_LISTED[operation.charged_as]
    # A batch has the others in the results of its requests.
    assert codes == listed or (operation.batch_of is not None and codes <= listed)
    assert set(examples) == {"SUCCESS", *(reason.name for reason in operation.reasons)}
    assert all("{" not in example["msg"] for example in examples.values())
    # A name that was mistyped, and what it was taken for.
    if unknown := examples.get("PARAMETER_UNKNOWN"):
        words = unknown["msg"].replace(",", "").split()
        assert words[1] != words[words.index("but") + 1]


@pytest.mark.parametrize("operation", WITH_COMPANIONS, ids=lambda operation: operation.name)
def test_every_field_is_described_in_every_spelling(operation: Operation) -> None:
    document = openapi(WITH_COMPANIONS, "http://127.0.0.1:8080", mapped=False)
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
    document = openapi(WITH_COMPANIONS, "http://127.0.0.1:8080", mapped=True)
    for operation in WITH_COMPANIONS:
        described = document["paths"][operation.path][operation.method.lower()]
        for reason in operation.reasons:
            response = described["responses"][str(reason.value.status)]
            assert reason.name in response["content"]["application/json"]["examples"]


def test_where_clients_obtain_tokens_is_described_with_every_error() -> None:
    document = openapi(WITH_COMPANIONS, "http://127.0.0.1:8080", mapped=False)
    described = document["paths"][TOKEN_PATH]["post"]
    for reason in Unobtained:
        media = described["responses"][str(reason.value.status)]["content"]["application/json"]
        assert media["examples"][reason.name]["value"]["error"] == reason.value.error
    flow = document["components"]["securitySchemes"]["client"]["flows"]["clientCredentials"]
    assert flow["tokenUrl"] == f"http://127.0.0.1:8080{TOKEN_PATH}"
