"""The same call in five languages, made from an operation's descriptor and a request."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from tollway.contract.operation import Encoding, Operation

Request = Mapping[str, Any]
# Methods of the SDKs that are not called like their operation.
_METHODS = {"waybills": "issue_waybill", "waybills_batch": "issue_waybills"}


def samples_of(operation: Operation, request: Request, base: str) -> list[tuple[str, str]]:
    """Each with the name of its language. A token is put in where it says tw_test_…"""
    return [
        ("curl", _curl(operation, request, base)),
        ("Python", _python(operation, request, base)),
        ("JavaScript", _javascript(operation, request, base)),
        ("PHP", _php(operation, request, base)),
        ("Java", _java(operation, request, base)),
    ]


def _curl(operation: Operation, request: Request, base: str) -> str:
    head = 'curl -s -H "Authorization: Bearer tw_test_…"'
    if operation.encoding is Encoding.QUERY:
        return f'{head} \\\n  "{base}{operation.path}?{urlencode(request)}"'
    if operation.encoding is Encoding.FORM:
        fields = " ".join(f"-F {name}={value}" for name, value in request.items())
        return f'{head} \\\n  {fields} \\\n  "{base}{operation.path}"'
    body = json.dumps(request, ensure_ascii=False)
    return (
        f'{head} -H "Content-Type: application/json" \\\n'
        f"  -d '{body}' \\\n  \"{base}{operation.path}\""
    )


def _python(operation: Operation, request: Request, base: str) -> str:
    method = _METHODS.get(operation.name, operation.name)
    arguments = "".join(f"    {name}={value!r},\n" for name, value in request.items())
    return (
        "from tollway_client import Client\n\n"
        f'client = Client("tw_test_…", "{base}")\n'
        f"answer = client.{method}(\n{arguments})\nprint(answer)\nclient.close()"
    )


def _javascript(operation: Operation, request: Request, base: str) -> str:
    first, *rest = _METHODS.get(operation.name, operation.name).split("_")
    method = first + "".join(part.capitalize() for part in rest)
    sent = "".join(
        f"  {name}: {json.dumps(value, ensure_ascii=False)},\n" for name, value in request.items()
    )
    return (
        'import { Client } from "tollway-client";\n\n'
        f'const client = new Client({{ token: "tw_test_…", baseUrl: "{base}" }});\n'
        f"const answer = await client.{method}({{\n{sent}}});\nconsole.log(answer);"
    )


def _php(operation: Operation, request: Request, base: str) -> str:
    values = "".join(f"    '{name}' => {_php_value(value)},\n" for name, value in request.items())
    url, options = f"'{base}{operation.path}'", ""
    types = ""
    if operation.encoding is Encoding.QUERY:
        url += " . '?' . http_build_query($request)"
    elif operation.encoding is Encoding.FORM:
        options = "    CURLOPT_POSTFIELDS => $request,\n"
    else:
        options = "    CURLOPT_POSTFIELDS => json_encode($request),\n"
        types = ", 'Content-Type: application/json'"
    return (
        f"<?php\n$request = [\n{values}];\n$curl = curl_init({url});\ncurl_setopt_array($curl, [\n"
        f"    CURLOPT_RETURNTRANSFER => true,\n{options}"
        f"    CURLOPT_HTTPHEADER => ['Authorization: Bearer tw_test_…'{types}],\n]);\n"
        "$answer = json_decode(curl_exec($curl), true);\n"
        "if ($answer['code'] !== 0) {\n    exit($answer['msg']);\n}\nprint_r($answer['data']);"
    )


def _php_value(value: object) -> str:
    if isinstance(value, dict):
        return f"[{', '.join(f'{_php_value(k)} => {_php_value(v)}' for k, v in value.items())}]"
    if isinstance(value, list):
        return f"[{', '.join(map(_php_value, value))}]"
    return str(value) if isinstance(value, int) else f"'{value}'"


def _java(operation: Operation, request: Request, base: str) -> str:
    if operation.encoding is Encoding.QUERY:
        url, sent = f"{base}{operation.path}?{urlencode(request)}", ".GET()"
    elif operation.encoding is Encoding.FORM:
        url, sent = (
            f"{base}{operation.path}",
            _java_post("application/x-www-form-urlencoded", urlencode(request)),
        )
    else:
        url = f"{base}{operation.path}"
        sent = _java_post("application/json", json.dumps(request, ensure_ascii=False))
    return (
        "import java.net.URI;\nimport java.net.http.*;\n\npublic class Call {\n"
        "    public static void main(String[] arguments) throws Exception {\n"
        f'        var request = HttpRequest.newBuilder(URI.create("{url}"))\n'
        '            .header("Authorization", "Bearer tw_test_…")\n'
        f"            {sent}\n            .build();\n"
        "        var answer = HttpClient.newHttpClient()\n"
        "            .send(request, HttpResponse.BodyHandlers.ofString());\n"
        "        System.out.println(answer.body());\n    }\n}"
    )


def _java_post(content_type: str, body: str) -> str:
    text = body.replace("\\", "\\\\").replace('"', '\\"')
    return (
        f'.header("Content-Type", "{content_type}")\n'
        f'            .POST(HttpRequest.BodyPublishers.ofString("{text}"))'
    )
