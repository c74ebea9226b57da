"""The samples of the reference run as they are shown, each language in one process.

Ids that only an account of one's own has are replaced by those of a token, webhook, waybill, call
or export that the test made for the sample.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.all_operations import all_operations_caller, good_request
from tests.support.gateway import Gateway
from tests.support.java import JAVA, JAVAC
from tests.support.ledger import RUNTIME, Caller
from tests.support.ports import free_port
from tests.support.webhooks import Receiver
from tollway.contract.operation import Operation
from tollway.ledger.tokens import issue_token
from tollway.operations.account_api import ACCOUNT_OPERATIONS
from tollway.operations.account_api.examples import (
    ALL_EXAMPLES,
    EVENT_ID,
    OBJECT_ID,
    REQUEST_ID,
    TOKEN_ID,
    WEBHOOK_ID,
    WEBHOOK_URL,
)
from tollway.operations.catalogue import ALL_OPERATIONS, BY_NAME
from tollway.operations.examples import EXPORT_ID
from tollway.web.code_samples import samples_of, token_in

pytestmark = pytest.mark.sqlite
ROOT = Path(__file__).parents[2]
ALL = (*ALL_OPERATIONS, *ACCOUNT_OPERATIONS)
# Printed before the output of each sample.
_MARK = "==> "


class SampleAccount(NamedTuple):
    """An account with both kinds of tokens, which makes what a sample needs."""

    gateway: Gateway
    caller: Caller
    test_token: str
    hook_url: str
    today: date

    def change(self, path: str, **values: Any) -> Any:
        reply = self.gateway.post_json(f"/account/v1/{path}", values, token=self.caller.token)
        assert reply.code == 0, reply.msg
        return reply.data

    def webhook_id(self) -> str:
        made = self.change("webhooks/make", url=self.hook_url)
        return str(made["endpoint"]["id"])

    def event_id(self, webhook_id: str) -> str:
        self.change("webhooks/test")
        log = self.gateway.get(
            "/account/v1/webhooks/deliveries",
            token=self.caller.token,
            query={"webhook_id": webhook_id},
        )
        return str(log.data["deliveries"][0]["event_id"])

    def waybill(self, order_sn: str) -> tuple[str, str]:
        sent = {**good_request(BY_NAME["waybills"], self.today), "order_sn": order_sn}
        reply = self.gateway.post_json(BY_NAME["waybills"].path, sent, token=self.caller.token)
        assert reply.code == 0, reply.msg
        return str(reply.data["objectId"]), reply.headers["x-request-id"]

    def export_id(self, operation: Operation) -> str:
        export = next(each for each in ALL if f"{each.path}/file" == operation.path)
        sent = ALL_EXAMPLES[export.name].request(self.today)
        reply = self.gateway.post_json(export.path, sent, token=self.test_token)
        assert reply.code == 0, reply.msg
        return str(reply.data["export_id"])

    def filled_in(self, operation: Operation, text: str, unique: str) -> str:
        """A sample with a token, and with ids that exist."""
        is_test = token_in(operation).startswith("tw_test_")
        text = text.replace(
            token_in(operation), self.test_token if is_test else self.caller.token
        ).replace(WEBHOOK_URL, self.hook_url)
        if TOKEN_ID in text:
            text = text.replace(TOKEN_ID, self.change("tokens/make", label="x")["token"]["id"])
        if OBJECT_ID in text or REQUEST_ID in text:
            object_id, request_id = self.waybill(f"SAMPLE-{unique}")
            text = text.replace(OBJECT_ID, object_id).replace(REQUEST_ID, request_id)
        if WEBHOOK_ID in text:
            webhook_id = self.webhook_id()
            text = text.replace(WEBHOOK_ID, webhook_id)
            if EVENT_ID in text:
                text = text.replace(EVENT_ID, self.event_id(webhook_id))
        if EXPORT_ID in text:
            text = text.replace(EXPORT_ID, self.export_id(operation))
        return text


@pytest.fixture(scope="module")
def account(world: Gateway, today: date) -> Iterator[SampleAccount]:
    caller = all_operations_caller(world.store, rate_limit=1000)
    issued = world.store.do(
        lambda database: issue_token(database, RUNTIME, caller.account_id, kind="test")
    )
    receiver = Receiver()
    yield SampleAccount(world, caller, issued.text, receiver.url, today)
    receiver.close()


Samples = dict[str, str]
Sampled = Callable[[str], Samples]


@pytest.fixture
def sampled(account: SampleAccount) -> Iterator[Sampled]:
    """The samples of a language by the name of their operation."""

    def samples(language: str) -> Samples:
        found = {}
        for operation in ALL:
            request = ALL_EXAMPLES[operation.name].request(account.today)
            text = dict(samples_of(operation, request, account.gateway.base_url))[language]
            found[operation.name] = account.filled_in(
                operation, text, f"{language}-{operation.name}"[:50]
            )
        return found

    yield samples
    # An account has at most ten webhooks.
    listed = account.gateway.get("/account/v1/webhooks", token=account.caller.token).data[
        "webhooks"
    ]
    for each in listed:
        if each["ended_at_s"] is None:
            account.change("webhooks/end", webhook_id=each["id"])


def _outputs(command: list[str], folder: Path, **more: str) -> dict[str, str]:
    """What each sample prints, by the name of its operation."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **more},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    parts = [part.partition("\n") for part in done.stdout.split(_MARK)[1:]]
    last = parts[-1][0] if parts else "none"
    assert done.returncode == 0, f"{last}: {done.stderr}"
    return {name.strip(): text for name, _, text in parts}


def _check(outputs: dict[str, str], signs: Callable[[Operation], str]) -> None:
    assert list(outputs) == [each.name for each in ALL]
    for operation in ALL:
        output = outputs[operation.name]
        assert signs(operation) in output, f"{operation.name}: {output[:500]}"


def _as_json(operation: Operation) -> str:
    return f'"{operation.response_type.__struct_fields__[0]}":' if operation.is_file else '"code":0'


def test_the_curl_samples_run(sampled: Sampled, tmp_path: Path) -> None:
    lines = [f"echo; echo '{_MARK}{name}'\n{text}" for name, text in sampled("curl").items()]
    script = tmp_path / "samples.sh"
    script.write_text("set -e\n" + "\n".join(lines), encoding="utf-8")
    _check(_outputs(["bash", str(script)], tmp_path), _as_json)


def test_the_python_samples_run(sampled: Sampled, tmp_path: Path) -> None:
    parts = [
        f"print('{_MARK}{name}')\nexec({text!r}, {{}})" for name, text in sampled("Python").items()
    ]
    (tmp_path / "samples.py").write_text("\n".join(parts), encoding="utf-8")
    path = f"{ROOT / 'sdk/python'}:{os.environ['PYTHONPATH']}"
    outputs = _outputs([sys.executable, "samples.py"], tmp_path, PYTHONPATH=path)
    _check(outputs, lambda each: f"{each.response_type.__name__}(")


def test_the_javascript_samples_run(sampled: Sampled, package: Path) -> None:
    lines = []
    for name, text in sampled("JavaScript").items():
        (package / f"sample_{name}.mjs").write_text(text, encoding="utf-8")
        lines.append(f'console.log("{_MARK}{name}");\nawait import("./sample_{name}.mjs");')
    (package / "samples.mjs").write_text("\n".join(lines), encoding="utf-8")
    outputs = _outputs(["node", "samples.mjs"], package)
    _check(outputs, lambda each: f"{each.response_type.__struct_fields__[0]}:")


def _has_php_with_curl() -> bool:
    asked = ["php", "-r", "exit(function_exists('curl_init') ? 0 : 1);"]
    return bool(shutil.which("php")) and not subprocess.run(asked, check=False).returncode


@pytest.mark.skipif(not _has_php_with_curl(), reason="needs PHP with curl")
def test_the_php_samples_run(sampled: Sampled, tmp_path: Path) -> None:
    lines = ["<?php"]
    for name, text in sampled("PHP").items():
        (tmp_path / f"{name}.php").write_text(text, encoding="utf-8")
        lines.append(f'echo "\\n{_MARK}{name}\\n"; include "{name}.php";')
    (tmp_path / "samples.php").write_text("\n".join(lines), encoding="utf-8")
    outputs = _outputs(["php", "samples.php"], tmp_path)
    _check(outputs, lambda each: _as_json(each) if each.is_file else "Array")


@pytest.mark.skipif(not _has_php_with_curl(), reason="needs PHP with curl")
@pytest.mark.parametrize("name", ["orders", "orders_export_file"])
def test_the_php_samples_say_that_there_was_no_answer(today: date, name: str) -> None:
    (operation,) = (each for each in ALL if each.name == name)
    request = ALL_EXAMPLES[name].request(today)
    samples = dict(samples_of(operation, request, f"http://127.0.0.1:{free_port()}"))
    done = subprocess.run(
        ["php"], input=samples["PHP"], capture_output=True, encoding="utf-8", check=False
    )
    assert done.stdout.startswith("No answer: ") and done.stderr == "", done


@pytest.mark.skipif(not shutil.which("javac"), reason="needs a JDK")
def test_the_java_samples_run(sampled: Sampled, tmp_path: Path) -> None:
    calls = []
    for name, text in sampled("Java").items():
        source = text.replace("public class Call {", f"public class {name} {{")
        (tmp_path / f"{name}.java").write_text(source, encoding="utf-8")
        calls.append(f'System.out.println("\\n{_MARK}{name}"); {name}.main(arguments);')
    main = f"void main(String[] arguments) throws Exception {{ {''.join(calls)} }}"
    (tmp_path / "Samples.java").write_text(f"class Samples {{ public static {main} }}")
    sources = [f"{name}.java" for name in (*(each.name for each in ALL), "Samples")]
    _outputs([*JAVAC, *sources], tmp_path)
    _check(_outputs([*JAVA, "-cp", ".", "Samples"], tmp_path), _as_json)
