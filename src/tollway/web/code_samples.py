"""The same call in five languages, made from an operation's descriptor and a request; and how to
check the signature of a webhook in each."""

import json
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from tollway.contract.decoding import as_sent, declared_fields
from tollway.contract.operation import Encoding, Operation
from tollway.ledger.token_format import PREFIXES
from tollway.operations.account_api.operation import AccountOperation

Request = Mapping[str, Any]
# SDK methods whose names differ from their operation's.
_METHODS = {"waybills": "issue_waybill", "waybills_batch": "issue_waybills"}


def takes_live_token(operation: Operation) -> bool:
    """Whether the operation has no sandbox, so that running its sample has a real effect."""
    return isinstance(operation, AccountOperation)


def token_prefix(operation: Operation) -> str:
    """The prefix of the token in the samples."""
    return PREFIXES["live" if takes_live_token(operation) else "test"]


def token_in(operation: Operation) -> str:
    """The placeholder for the caller's token in the samples."""
    return f"{token_prefix(operation)}…"


def samples_of(
    operation: Operation, request: Request, base: str, *, is_live: bool = False
) -> list[tuple[str, str]]:
    """Samples by language name; for the sandbox where there is one, unless `is_live`."""
    if is_live:
        token, live = token_in(operation), f"{PREFIXES['live']}…"
        samples = samples_of(operation, request, base)
        return [(name, text.replace(token, live)) for name, text in samples]
    samples = [
        ("curl", _curl(operation, request, base)),
        ("PHP", _php(operation, request, base)),
        ("Java", _java(operation, request, base)),
    ]
    # The SDKs have no methods for operations of installed packages.
    if operation.request_type.__module__.startswith("tollway."):
        typed = _typed(operation, request)
        samples[1:1] = [
            ("Python", _python(operation, typed, base)),
            ("JavaScript", _javascript(operation, typed, base)),
        ]
    return samples


def _typed(operation: Operation, request: Request) -> Request:
    """The request with the types that the SDKs take: in a form every value is a text."""
    fields = {each.name: each.field for each in declared_fields(operation.request_type)}
    return {
        name: as_sent(fields[name], value) if name in fields and isinstance(value, str) else value
        for name, value in request.items()
    }


def _address(operation: Operation, request: Request, base: str) -> str:
    query = f"?{urlencode(request)}" if operation.encoding is Encoding.QUERY and request else ""
    return f"{base}{operation.path}{query}"


def _curl(operation: Operation, request: Request, base: str) -> str:
    head = f'curl -s -H "Authorization: Bearer {token_in(operation)}"'
    address = f'"{_address(operation, request, base)}"'
    if operation.is_file:
        return f"{head} \\\n  {address} | gunzip"
    if operation.encoding is Encoding.QUERY:
        return f"{head} \\\n  {address}"
    if operation.encoding is Encoding.FORM:
        fields = " ".join(f"-F {shlex.quote(f'{name}={value}')}" for name, value in request.items())
        return f"{head} \\\n  {fields} \\\n  {address}"
    body = shlex.quote(json.dumps(request, ensure_ascii=False))
    return f'{head} -H "Content-Type: application/json" \\\n  -d {body} \\\n  {address}'


def _method(operation: Operation) -> str:
    """The method of the Python SDK."""
    if operation.is_file:
        return f"iter_{operation.name.removesuffix('_file')}"
    if isinstance(operation, AccountOperation):
        return f"account.{operation.name.removeprefix('account_')}"
    return _METHODS.get(operation.name, operation.name)


def _python(operation: Operation, request: Request, base: str) -> str:
    arguments = "".join(f"    {name}={value!r},\n" for name, value in request.items())
    lines = f"\n{arguments}" if arguments else ""
    call = f"client.{_method(operation)}({lines})"
    work = f"answer = {call}\nprint(answer)"
    if operation.is_file:
        work = f"for record in {call}:\n    print(record)"
    return (
        "from tollway_client import Client\n\n"
        f'client = Client("{token_in(operation)}", "{base}")\n{work}\nclient.close()'
    )


def _javascript(operation: Operation, request: Request, base: str) -> str:
    first, *rest = _method(operation).split("_")
    method = first + "".join(part.capitalize() for part in rest)
    sent = "".join(
        f"  {name}: {json.dumps(value, ensure_ascii=False)},\n" for name, value in request.items()
    )
    given = f"{{\n{sent}}}" if sent else ""
    call = f"client.{method}({given})"
    work = f"const answer = await {call};\nconsole.log(answer);"
    if operation.is_file:
        work = f"for await (const record of {call}) {{\n  console.log(record);\n}}"
    return (
        'import { Client } from "tollway-client";\n\n'
        f'const client = new Client({{ token: "{token_in(operation)}", baseUrl: "{base}" }});\n'
        f"{work}"
    )


def _php(operation: Operation, request: Request, base: str) -> str:
    values = "".join(f"    '{name}' => {_php_value(value)},\n" for name, value in request.items())
    given = f"$request = [\n{values}];\n" if values else ""
    url, options, types = f"'{base}{operation.path}'", "", ""
    if operation.encoding is Encoding.QUERY:
        url += " . '?' . http_build_query($request)" if values else ""
    elif operation.encoding is Encoding.FORM:
        options = "    CURLOPT_POSTFIELDS => $request,\n"
    else:
        body = "json_encode($request)" if values else "'{}'"
        options = f"    CURLOPT_POSTFIELDS => {body},\n"
        types = ", 'Content-Type: application/json'"
    return (
        f"<?php\n{given}$curl = curl_init({url});\ncurl_setopt_array($curl, [\n"
        f"    CURLOPT_RETURNTRANSFER => true,\n{options}"
        f"    CURLOPT_HTTPHEADER => ['Authorization: Bearer {token_in(operation)}'{types}],\n]);\n"
        f"{_PHP_FILE if operation.is_file else _PHP_ANSWER}"
    )


_PHP_SENT = (
    "$body = curl_exec($curl);\n"
    "if ($body === false) {\n    exit('No answer: ' . curl_error($curl));\n}\n"
)
_PHP_ANSWER = (
    f"{_PHP_SENT}$answer = json_decode($body, true);\n"
    "if ($answer['code'] !== 0) {\n    exit($answer['msg']);\n}\nprint_r($answer['data']);"
)
_PHP_FILE = (
    f"{_PHP_SENT}if (curl_getinfo($curl, CURLINFO_CONTENT_TYPE) !== 'application/gzip') {{\n"
    "    exit($body);\n}\necho gzdecode($body);"
)


def _php_value(value: object) -> str:
    if isinstance(value, dict):
        return f"[{', '.join(f'{_php_value(k)} => {_php_value(v)}' for k, v in value.items())}]"
    if isinstance(value, list):
        return f"[{', '.join(map(_php_value, value))}]"
    if isinstance(value, int):
        return str(value)
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


def _java(operation: Operation, request: Request, base: str) -> str:
    sent = ".GET()"
    if operation.encoding is Encoding.FORM:
        sent = _java_post("application/x-www-form-urlencoded", urlencode(request))
    elif operation.encoding is Encoding.JSON:
        sent = _java_post("application/json", json.dumps(request, ensure_ascii=False))
    imports = "import java.net.URI;\nimport java.net.http.*;\n"
    handler = "ofString"
    work = "        System.out.println(answer.body());\n"
    if operation.is_file:
        imports += "import java.util.zip.GZIPInputStream;\n"
        handler = "ofInputStream"
        work = (
            '        if (answer.headers().firstValue("content-type").orElse("")'
            '.equals("application/gzip")) {\n'
            "            new GZIPInputStream(answer.body()).transferTo(System.out);\n"
            "        } else {\n            answer.body().transferTo(System.err);\n        }\n"
        )
    return (
        f"{imports}\npublic class Call {{\n"
        "    public static void main(String[] arguments) throws Exception {\n"
        "        var request = HttpRequest.newBuilder("
        f'URI.create("{_address(operation, request, base)}"))\n'
        f'            .header("Authorization", "Bearer {token_in(operation)}")\n'
        f"            {sent}\n            .build();\n"
        "        var answer = HttpClient.newHttpClient()\n"
        f"            .send(request, HttpResponse.BodyHandlers.{handler}());\n"
        f"{work}    }}\n}}"
    )


def _java_post(content_type: str, body: str) -> str:
    text = body.replace("\\", "\\\\").replace('"', '\\"')
    return (
        f'.header("Content-Type", "{content_type}")\n'
        f'            .POST(HttpRequest.BodyPublishers.ofString("{text}"))'
    )


# Signatures: the samples call an SDK where it has the check, and spell it out elsewhere.
_SHELL = r"""# The headers are webhook-id (ID), webhook-timestamp and webhook-signature.
KEY=$(printf %s "${SECRET#whsec_}" | base64 -d | od -An -vtx1 | tr -d ' \n')
EXPECTED=v1,$({ printf '%s.%s.' "$ID" "$TIMESTAMP"; cat body.json; } |
  openssl dgst -sha256 -mac HMAC -macopt "hexkey:$KEY" -binary | base64)
AGE=$(($(date +%s) - TIMESTAMP))
case " $SIGNATURE " in
  *" $EXPECTED "*) [ "${AGE#-}" -le 300 ] && echo genuine ;;
esac
"""
_PYTHON = """from tollway_client.webhooks import SignatureError, verify


def receive(body: bytes, headers: dict[str, str], secret: str) -> int:
    # The status to answer with; the body is what arrived, not yet parsed.
    try:
        event = verify(body, headers, secret)
    except SignatureError:
        return 401
    print(event.id, event.type, event.data)
    return 204
"""
_JAVASCRIPT = """import { SignatureError, verify } from "tollway-client";

// The status to answer with; the body is the text that arrived, not yet parsed.
export async function receive(body, headers, secret) {
  try {
    const event = await verify(body, headers, secret);
    console.log(event.id, event.type, event.data);
    return 204;
  } catch (error) {
    if (error instanceof SignatureError) return 401;
    throw error;
  }
}
"""
_PHP = """<?php
// $body = file_get_contents('php://input'); $headers = array_change_key_case(getallheaders());
function isGenuine(string $body, array $headers, string $secret): bool
{
    $id = $headers['webhook-id'] ?? '';
    $at = $headers['webhook-timestamp'] ?? '';
    if (!preg_match('/^[0-9]{1,15}$/D', $at) || abs(time() - (int) $at) > 300) {
        return false;
    }
    $key = base64_decode(substr($secret, strlen('whsec_')));
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$at.$body", $key, true));
    foreach (explode(' ', $headers['webhook-signature'] ?? '') as $given) {
        if (hash_equals($expected, $given)) {
            return true;
        }
    }
    return false;
}
"""
_JAVA = """import static java.nio.charset.StandardCharsets.UTF_8;

import java.security.MessageDigest;
import java.time.Instant;
import java.util.Base64;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

class Webhooks {
    /** The texts are the headers webhook-id, webhook-timestamp and webhook-signature. */
    static boolean isGenuine(byte[] body, String id, String at, String signatures, String secret)
            throws Exception {
        if (!at.matches("[0-9]{1,15}")
                || Math.abs(Instant.now().getEpochSecond() - Long.parseLong(at)) > 300) {
            return false;
        }
        var key = Base64.getDecoder().decode(secret.substring("whsec_".length()));
        var mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        mac.update((id + "." + at + ".").getBytes(UTF_8));
        var expected = "v1," + Base64.getEncoder().encodeToString(mac.doFinal(body));
        for (var given : signatures.split(" ")) {
            if (MessageDigest.isEqual(expected.getBytes(UTF_8), given.getBytes(UTF_8))) {
                return true;
            }
        }
        return false;
    }
}
"""
SIGNATURE_SAMPLES = (
    ("Shell", _SHELL),
    ("Python", _PYTHON),
    ("JavaScript", _JAVASCRIPT),
    ("PHP", _PHP),
    ("Java", _JAVA),
)
