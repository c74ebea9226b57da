"""The commands for carriers that give their numbers themselves."""

import io
import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.support.stores import Store
from tollway.carriers.carrier_links import find_link
from tollway.store.open import open_sealer

SECRET = "canary-of-the-operator"
URL = "https://link.example/gateway"
TEMPLATE = ("--template", "https://cloudprint.example/standard/101")
CONNECT = (
    *("carrier", "connect", "YTO", "--url", URL, "--provider", "TOLLWAY", "--to-code", "YTO-1"),
    *TEMPLATE,
)
FROM_FILE = ("--secret-file", "link.secret")


@pytest.fixture(autouse=True)
def carrier(tollway: Command, ledger_store: Store, workplace: Path) -> None:
    (workplace / "link.secret").write_text(f"{SECRET}\n", "utf-8")
    assert tollway("carrier", "add", "YTO", "圆通速递").status == 0


def _kept(ledger_store: Store) -> str:
    opened = ledger_store.do(
        lambda database: find_link(
            database, open_sealer(ledger_store.url, ledger_store.key_file), "YTO"
        )
    )
    assert opened is not None
    return opened.secret


def test_connect_list_and_disconnect_never_show_the_secret(
    tollway: Command, ledger_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    answers = [
        tollway(*CONNECT, *FROM_FILE),
        tollway(*CONNECT, *FROM_FILE, "--deadline-ms", "800", "--settle-after-s", "30", "--json"),
        tollway("carrier", "list"),
        tollway("carrier", "list", "--json"),
    ]
    assert _kept(ledger_store) == SECRET
    answers += [tollway("carrier", "disconnect", "YTO"), tollway("carrier", "list")]
    assert [each.status for each in answers] == [0] * 6
    connected, as_json, listed, listed_json, gone, listed_after = (each.out for each in answers)
    assert URL in connected and "5,000 ms" in connected
    link = json.loads(as_json)
    assert (link["deadline_ms"], link["settle_after_s"], link["url"]) == (800, 30, URL)
    assert link["protocol"] == "cainiao-link"
    assert f"{URL} (cainiao-link)" in listed and "pool" not in listed
    assert json.loads(listed_json)[0]["link"] == link
    assert "no longer connected" in gone and "pool" in listed_after
    assert SECRET not in "".join(each.out + each.err for each in answers) + caplog.text
    assert SECRET.encode() not in b"".join(
        path.read_bytes() for path in ledger_store.path.parent.glob("ledger.db*")
    )


def test_the_secret_may_come_from_standard_input(
    tollway: Command, ledger_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"from outside\r\n")))
    assert tollway(*CONNECT, "--secret-file", "-").status == 0
    assert _kept(ledger_store) == "from outside"


@pytest.mark.parametrize(
    ("change", "status", "sentence"),
    [
        (("--secret-file", "nowhere.txt"), 1, "nowhere.txt"),
        (("--secret-file", "binary.secret"), 2, "UTF-8"),
        ((), 2, "--secret-file"),
        ((*FROM_FILE, "--url", "http://link.example/"), 1, "--plain-http"),
        ((*FROM_FILE, "--protocol", "pigeon"), 1, "pigeon is not installed here: install"),
        ((*FROM_FILE, "--deadline-ms", "0"), 2, "--deadline-ms"),
        ((*FROM_FILE, "--deadline-ms", "2000", "--settle-after-s", "2"), 1, "still arrive"),
    ],
)
def test_what_cannot_be_connected_is_refused_in_one_sentence(
    tollway: Command, workplace: Path, change: tuple[str, ...], status: int, sentence: str
) -> None:
    (workplace / "binary.secret").write_bytes(b"\xff\xfe\xff")
    answer = tollway(*CONNECT, *change)
    assert (answer.status, answer.out) == (status, "")
    assert sentence in answer.err and answer.err.count("\n") == 1
    assert tollway("carrier", "list", "--json").json[0]["link"] is None


def test_plain_http_must_be_wished_for(tollway: Command) -> None:
    plain = ("--url", "http://link.example/", "--plain-http")
    assert tollway(*CONNECT, *FROM_FILE, *plain).status == 0


def test_a_carrier_that_is_not_connected_cannot_be_disconnected(tollway: Command) -> None:
    answer = tollway("carrier", "disconnect", "YTO")
    assert (answer.status, answer.out) == (1, "") and "not connected" in answer.err
    unknown = tollway("carrier", "disconnect", "NONE")
    assert unknown.status == 1 and "There is no carrier NONE" in unknown.err
