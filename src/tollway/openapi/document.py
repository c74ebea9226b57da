"""The whole OpenAPI document."""

from collections.abc import Sequence

import msgspec

from tollway import __version__
from tollway.contract.oauth import TOKEN_PATH, TokenAnswer
from tollway.contract.operation import Operation
from tollway.contract.receipt import RECEIPTS_PATH, Receipt
from tollway.openapi.answers import Json
from tollway.openapi.paths import describe_operation, describe_receipt, describe_token


def openapi(operations: Sequence[Operation], base_url: str, *, mapped: bool) -> Json:
    """The whole document."""
    types = [*(operation.response_type for operation in operations), Receipt, TokenAnswer]
    _, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tollway",
            "version": __version__,
            "description": "Every answer is the same JSON envelope; `code` 0 means success, and "
            "only success is charged.",
        },
        "servers": [{"url": base_url}],
        "security": [{"token": []}, {"client": []}],
        "paths": {
            each.path: {each.method.lower(): describe_operation(each, mapped)}
            for each in operations
        }
        | {
            f"{RECEIPTS_PATH}{{request_id}}": {"get": describe_receipt(mapped)},
            TOKEN_PATH: {"post": describe_token()},
        },
        "components": {
            "schemas": components,
            "securitySchemes": _security_schemes(base_url),
        },
    }


def _security_schemes(base_url: str) -> Json:
    flow = {"tokenUrl": f"{base_url}{TOKEN_PATH}", "scopes": {}}
    return {
        "token": {"type": "http", "scheme": "bearer"},
        "client": {"type": "oauth2", "flows": {"clientCredentials": flow}},
        "client_secret": {"type": "http", "scheme": "basic"},
    }
