"""A database is used with the keys that it was first used with, and with no others by mistake."""

import asyncio
import base64
import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Answer, Command
from tests.support.gateway import Gateway
from tests.support.orders import order, put_orders
from tests.support.ports import free_port
from tests.support.stores import Store
from tollway.operations.catalogue import ALL_TABLES
from tollway.store.key_check import KEY_FILE, CheckedKeyFile, KeyFileError, use_files
from tollway.store.open import OpenDatabase

FILES = {"key_file": "ledger.db.keys", "secret_file": "ledger.db.secret"}
NAMES = {"key_file": "key 1", "secret_file": "secret"}


def _key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


def _key_file(**keys: str) -> str:
    """The content of a key file: its keys are named k1, k2 and so on."""
    by_id = {name.removeprefix("k"): key for name, key in keys.items()}
    return json.dumps({"current": max(map(int, by_id)), "keys": by_id})


_NO_KEY = "is not 32 bytes in base64"
_NO_JSON = "it is not JSON with `current` and `keys`"
DAMAGED = {
    "a key cut off": (_key_file(k1=_key(), k2=_key()[:-1]), f"its key 2 {_NO_KEY}"),
    "a short key": (_key_file(k1=base64.b64encode(b"short").decode()), f"its key 1 {_NO_KEY}"),
    "no key at all": (_key_file(k1="密钥"), f"its key 1 {_NO_KEY}"),
    "an unknown id": (
        json.dumps({"current": 2, "keys": {"1": _key()}}),
        "`current` is 2, and must",
    ),
    "a large id": (_key_file(k300=_key()), "`current` is 300, and must"),
    "half a file": (_key_file(k1=_key())[:-9], _NO_JSON),
    "no current key": (json.dumps({"keys": {"1": _key()}}), _NO_JSON),
    "a retired key cut off": (
        json.dumps({"current": 2, "keys": {"2": _key()}, "retired": {"1": {"seals": "x"}}}),
        "what it keeps of key 1 for seals is not in base64",
    ),
}
OTHERS = {"key_file": _key_file(k1=_key()), "secret_file": os.urandom(32).hex()}


@pytest.fixture
def served(ledger_store: Store) -> Store:
    """A database that a gateway has served, with the keys that it made."""
    assert Gateway(ledger_store).stop() == 0
    return ledger_store


def _assert_refused(answer: Answer, *parts: str) -> None:
    assert (answer.status, answer.out) == (1, ""), answer
    assert answer.err.count("\n") == 1, answer.err
    for part in parts:
        assert part in answer.err


@pytest.mark.parametrize("setting", FILES)
def test_a_gateway_with_other_files_is_refused_and_makes_none(
    served: Store,
    process: Command,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
) -> None:
    serve = ("serve", "--port", str(free_port()))
    named = f"{setting.replace('_', ' ')} mistyped"
    monkeypatch.setenv(f"TOLLWAY_{setting.upper()}", "mistyped")
    refused = process(*serve)
    _assert_refused(refused, f"There is no {named}", f"the file with its {NAMES[setting]}")
    # A lost secret costs sessions; lost keys cost data, and no sentence should suggest that.
    assert ("`tollway keys accept" in refused.err) == (setting == "secret_file")
    assert not (workplace / "mistyped").exists()
    (workplace / "mistyped").write_text(OTHERS[setting])
    _assert_refused(process(*serve), f"The {named} has another {NAMES[setting]} than")
    (workplace / "mistyped").write_bytes((workplace / FILES[setting]).read_bytes())
    assert Gateway(served, **{setting: "mistyped"}).stop() == 0


def test_so_is_a_command_and_it_stores_nothing(
    served: Store, tollway: Command, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workplace / "orders.jsonl").write_text(json.dumps(order("000001")))
    before = served.run("SELECT * FROM key_check")
    monkeypatch.setenv("TOLLWAY_KEY_FILE", "mistyped")
    for command in (
        ("import", "orders", "orders.jsonl"),
        ("source", "add", "market", "--shop", "*"),
    ):
        _assert_refused(tollway(*command), "There is no key file mistyped")
        assert not (workplace / "mistyped").exists()
    (workplace / "mistyped").write_text(OTHERS["key_file"])
    for command in (
        ("import", "orders", "orders.jsonl"),
        ("source", "add", "market", "--shop", "*"),
    ):
        _assert_refused(tollway(*command), "The key file mistyped has another key 1 than")
    assert served.run("SELECT count(*) FROM shop_order") == [(0,)]
    assert served.run("SELECT count(*) FROM push_source") == [(0,)]
    assert served.run("SELECT * FROM key_check") == before
    monkeypatch.setenv("TOLLWAY_KEY_FILE", FILES["key_file"])
    assert "1 stored" in tollway("import", "orders", "orders.jsonl").out


def test_a_key_can_be_added_and_an_old_one_can_go(
    ledger_store: Store, tollway: Command, workplace: Path
) -> None:
    first, second, file = _key(), _key(), workplace / FILES["key_file"]
    file.write_text(_key_file(k1=first))
    assert tollway("source", "add", "a", "--shop", "*").status == 0
    file.write_text(_key_file(k3=_key()))
    _assert_refused(
        tollway("source", "add", "b", "--shop", "*"), "does not have key 1, which the database"
    )
    file.write_text(_key_file(k1=first, k2=second))
    assert tollway("source", "add", "b", "--shop", "*").status == 0
    file.write_text(_key_file(k1=first, k2=_key()))
    _assert_refused(tollway("source", "add", "c", "--shop", "*"), "has another key 2 than")
    file.write_text(_key_file(k2=second))
    assert tollway("source", "add", "c", "--shop", "*").status == 0


def test_of_two_first_ones_with_different_files_one_is_refused(
    ledger_store: Store, workplace: Path
) -> None:
    async def both(database: OpenDatabase) -> list[BaseException | None]:
        files = [CheckedKeyFile(KEY_FILE, workplace / name) for name in ("one.keys", "other.keys")]
        for file in files:
            file.fingerprints()  # makes it
        return await asyncio.gather(
            *(use_files(database, [file], ALL_TABLES) for file in files), return_exceptions=True
        )

    refused = [each for each in ledger_store.do(both) if each is not None]
    assert len(refused) == 1 and isinstance(refused[0], KeyFileError)
    assert "has another key 1 than" in str(refused[0])


def test_no_keys_are_made_for_what_is_sealed_already(
    ledger_store: Store, tollway: Command, workplace: Path
) -> None:
    put_orders(ledger_store, [order("000001")])
    keys = workplace / FILES["key_file"]
    keys.rename(workplace / "aside")
    _assert_refused(
        tollway("source", "add", "market", "--shop", "*"), "and the database has encrypted data"
    )
    assert not keys.exists()
    (workplace / "aside").rename(keys)
    assert tollway("source", "add", "market", "--shop", "*").status == 0


@pytest.mark.parametrize("setting", FILES)
def test_what_was_replaced_on_purpose_is_accepted(
    served: Store, tollway: Command, process: Command, workplace: Path, setting: str
) -> None:
    (workplace / FILES[setting]).write_text(OTHERS[setting])
    refused = process("serve", "--port", str(free_port()))
    _assert_refused(refused, f"has another {NAMES[setting]} than")
    accepted = " ".join(tollway("keys", "accept", setting).out.split())
    assert f"{FILES[setting]} from now on" in accepted
    lost = "What was encrypted with key 1 as it was before cannot be read any more."
    assert (lost in accepted) == (setting == "key_file")
    assert Gateway(served).stop() == 0
    assert tollway("keys", "accept", setting, "--json").json["gone"] == []


@pytest.mark.parametrize("content", ["", "not a key"])
@pytest.mark.parametrize("setting", FILES)
def test_files_that_cannot_be_used_are_reported_before_anything_is_changed(
    workplace: Path, process: Command, setting: str, content: str
) -> None:
    (workplace / FILES[setting]).write_text(content)
    before = set(workplace.iterdir())
    refused = process("serve", "--port", str(free_port()))
    _assert_refused(refused, f"The {setting.replace('_', ' ')} ", FILES[setting])
    assert set(workplace.iterdir()) == before
    assert "at schema none" in process("account", "list").err or not Path("ledger.db").exists()


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_key_file_is_named_with_its_fault_and_what_to_do(
    ledger_store: Store, workplace: Path, process: Command, tollway: Command, damage: str
) -> None:
    content, fault = DAMAGED[damage]
    keys = workplace / FILES["key_file"]
    keys.write_text(content)
    for refused in (
        process("serve", "--port", str(free_port())),
        tollway("keys", "accept", "key_file"),
    ):
        _assert_refused(refused, f"{FILES['key_file']} cannot be used: {fault}", "Put the right")
    assert keys.read_text() == content


@pytest.mark.parametrize("setting", FILES)
def test_so_are_files_that_cannot_be_made(
    workplace: Path, process: Command, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv(f"TOLLWAY_{setting.upper()}", "nowhere/file")
    refused = process("serve", "--port", str(free_port()))
    _assert_refused(refused, f"There is no {setting.replace('_', ' ')} nowhere/file", "in nowhere")
    assert list(workplace.iterdir()) == []


@pytest.mark.postgresql
@pytest.mark.parametrize("setting", FILES)
def test_so_are_settings_that_name_no_file(
    process: Command, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.delenv(f"TOLLWAY_{setting.upper()}")
    refused = process("serve", "--port", str(free_port()))
    _assert_refused(
        refused, f"the setting {setting} (TOLLWAY_{setting.upper()}=FILE), the same on every node"
    )
    assert "at schema none" in process("account", "list").err
