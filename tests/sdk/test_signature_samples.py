"""How a webhook is checked, as the reference shows it: each sample takes what the gateway signs,
and refuses what was altered, what is old, and what another secret signed."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.pages import ROOT
from tests.support.java import JAVA, JAVAC
from tollway.web.code_samples import SIGNATURE_SAMPLES
from tollway.webhooks.signature import key_of, sign

pytestmark = pytest.mark.sqlite
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
BODY = '{"type":"balance.low","data":{"unit":"点数"}}'
SAMPLES = dict(SIGNATURE_SAMPLES)


class Sent(NamedTuple):
    """A webhook as it arrives, and whether it is genuine."""

    body: str
    at_s: str
    signatures: str
    is_genuine: bool

    @property
    def headers(self) -> dict[str, str]:
        return {
            "webhook-id": "evt_1",
            "webhook-timestamp": self.at_s,
            "webhook-signature": self.signatures,
        }


def _sent() -> list[Sent]:
    now_s, old_s = str(int(time.time())), str(int(time.time()) - 3600)

    def signed(secret: str, at_s: str) -> str:
        return sign(key_of(secret), "evt_1", at_s, BODY.encode())

    good = signed(SECRET, now_s)
    return [
        Sent(BODY, now_s, good, is_genuine=True),
        # While a secret is replaced, both sign.
        Sent(BODY, now_s, f"{signed(OTHER, now_s)} {good}", is_genuine=True),
        Sent(BODY + " ", now_s, good, is_genuine=False),
        Sent(BODY, old_s, signed(SECRET, old_s), is_genuine=False),
        Sent(BODY, now_s, signed(OTHER, now_s), is_genuine=False),
    ]


def _run(command: list[str], folder: Path, **more: str) -> list[str]:
    """The lines that it prints."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **more},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def _check(answers: list[str], sent: list[Sent], genuine: str) -> None:
    assert [each == genuine for each in answers if each] == [each.is_genuine for each in sent]


def test_in_the_shell(tmp_path: Path) -> None:
    (tmp_path / "check.sh").write_text(SAMPLES["Shell"], encoding="utf-8")
    for each in _sent():
        (tmp_path / "body.json").write_text(each.body, encoding="utf-8")
        names = {"ID": "evt_1", "TIMESTAMP": each.at_s, "SIGNATURE": each.signatures}
        # Its last command fails where the webhook is not genuine.
        command = ["bash", "-c", ". ./check.sh || true"]
        assert ("genuine" in _run(command, tmp_path, SECRET=SECRET, **names)) == each.is_genuine


def test_in_python(tmp_path: Path) -> None:
    sent = _sent()
    calls = [(each.body, each.headers) for each in sent]
    (tmp_path / "check.py").write_text(
        SAMPLES["Python"]
        + "import json, sys\n"
        + "print = lambda *_: None\n"
        + f"for body, headers in json.loads({json.dumps(json.dumps(calls))}):\n"
        + f"    sys.stdout.write(str(receive(body.encode(), headers, {SECRET!r})) + '\\n')\n",
        encoding="utf-8",
    )
    path = str(ROOT / "sdk/python")
    _check(_run([sys.executable, "check.py"], tmp_path, PYTHONPATH=path), sent, "204")


def test_in_javascript(package: Path) -> None:
    sent = _sent()
    calls = json.dumps([(each.body, each.headers) for each in sent])
    (package / "receive.mjs").write_text(SAMPLES["JavaScript"], encoding="utf-8")
    (package / "check.mjs").write_text(
        'import { receive } from "./receive.mjs";\n'
        "const log = console.log; console.log = () => {};\n"
        f"for (const [body, headers] of {calls}) log(await receive(body, headers, {SECRET!r}));\n",
        encoding="utf-8",
    )
    _check(_run(["node", "check.mjs"], package), sent, "204")


@pytest.mark.skipif(not shutil.which("php"), reason="needs PHP")
def test_in_php(tmp_path: Path) -> None:
    sent = _sent()
    (tmp_path / "calls.json").write_text(json.dumps([(each.body, each.headers) for each in sent]))
    (tmp_path / "check.php").write_text(
        SAMPLES["PHP"]
        + "foreach (json_decode(file_get_contents('calls.json'), true) as [$body, $headers]) {\n"
        + f"    echo isGenuine($body, $headers, {SECRET!r}) ? 'yes' : 'no', \"\\n\";\n}}\n",
        encoding="utf-8",
    )
    _check(_run(["php", "check.php"], tmp_path), sent, "yes")


@pytest.mark.skipif(not shutil.which("javac"), reason="needs a JDK")
def test_in_java(tmp_path: Path) -> None:
    sent = _sent()
    texts = ", ".join(
        json.dumps(text) for each in sent for text in (each.body, each.at_s, each.signatures)
    )
    main = (
        "class Check { public static void main(String[] arguments) throws Exception {\n"
        f"    String[] sent = {{{texts}}};\n"
        "    for (int at = 0; at < sent.length; at += 3) {\n"
        '        var body = sent[at].getBytes("UTF-8");\n'
        "        System.out.println(Webhooks.isGenuine(\n"
        f'            body, "evt_1", sent[at + 1], sent[at + 2], "{SECRET}"));\n'
        "    }\n} }\n"
    )
    (tmp_path / "Webhooks.java").write_text(SAMPLES["Java"], encoding="utf-8")
    (tmp_path / "Check.java").write_text(main, encoding="utf-8")
    _run([*JAVAC, "Webhooks.java", "Check.java"], tmp_path)
    _check(_run([*JAVA, "-cp", ".", "Check"], tmp_path), sent, "true")
