"""Shops, users and their consents on the command line; promotion material from a file."""

import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.support.stores import Store

PASSWORD = "correct horse battery"
OWNER = {"kind", "id", "name", "shop_code", "login", "added_at_s"}
CONSENT = {
    "id",
    "account_id",
    "owner_kind",
    "owner_id",
    "scope",
    "granted_by",
    "granted_at_s",
    "expires_at_s",
    "revoked_at_s",
    "extended_at_s",
    "extended_by",
}


def words(line: str) -> list[str]:
    return line.split()


@pytest.fixture(autouse=True)
def typed(monkeypatch: pytest.MonkeyPatch, ledger_store: Store) -> None:
    """What a person would pipe into every command of a test."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n" * 20))


def test_a_shop_and_a_user_are_added_and_listed(tollway: Command) -> None:
    added = tollway(
        *words("shop add 7001 青禾 --shop-code QH1 --login Qing@example.com --password-stdin"),
        "--json",
    )
    assert set(added.json) == OWNER
    assert (added.json["kind"], added.json["login"]) == ("shop", "qing@example.com")
    user = tollway(*words("shop add 42 Lin --kind user --login lin --password-stdin"))
    assert user.out == "User Lin (42) is known; its owner signs in as lin.\n"
    listed = tollway("shop", "list", "--json").json
    assert [(each["kind"], each["id"]) for each in listed] == [("shop", "7001"), ("user", "42")]
    shown = tollway("shop", "list").out
    assert "青禾" in shown and "QH1" in shown
    assert PASSWORD not in shown and "argon2" not in shown


def test_a_consent_is_granted_extended_listed_and_revoked(tollway: Command) -> None:
    account_id = tollway("account", "open", "acme", "--json").json["id"]
    tollway(*words("shop add 42 Lin --kind user --login lin --password-stdin"))
    assert "no consents" in tollway("consent", "list").out
    given = tollway(*words("consent grant acme user 42 promotion --json")).json
    assert set(given) == CONSENT
    assert given["account_id"] == account_id
    assert given["expires_at_s"] - given["granted_at_s"] == 365 * 86_400
    assert ", until 20" in tollway(*words("consent grant acme user 42 promotion")).out
    again = tollway(*words("consent grant acme user 42 promotion --days 2 --json")).json
    assert again["id"] == given["id"]
    assert again["expires_at_s"] < given["expires_at_s"]
    assert (given["extended_at_s"], given["extended_by"]) == (None, None)
    assert again["granted_at_s"] == given["granted_at_s"] <= again["extended_at_s"]
    assert (again["granted_by"], again["extended_by"]) == ("operator", "operator")
    (row,) = tollway("consent", "list", "--account", "acme", "--json").json
    assert row == again
    assert "valid" in tollway("consent", "list").out
    revoked = tollway("consent", "revoke", given["id"], "--json").json
    assert revoked["revoked_at_s"] is not None
    assert "revoked" in tollway("consent", "list").out
    fresh = tollway(*words("consent grant acme user 42 promotion --json")).json
    assert fresh["id"] != given["id"]


WRONG_WISHES = (
    ("shop add 42 Other --kind user --login other --password-stdin", "That user 42 is known"),
    ("shop add 43 Other --kind user --login LIN --password-stdin", "That login is known"),
    ("shop add 042 Other --kind user --login other --password-stdin", "id is a number"),
    ("shop add 7 Other --login x --password-stdin", "The login must have 3 to 100"),
    (f"shop add {'7' * 65} Other --login other --password-stdin", "The id must have 1 to 64"),
    ("shop password unknown --password-stdin", "No owner signs in as unknown"),
    ("shop password unknown --link", "No owner signs in as unknown"),
    ("consent grant unknown user 42 promotion", "There is no account unknown"),
    ("consent grant acme user 43 promotion", "There is no user 43"),
    ("consent grant acme user 42 tea", "A user has no scope tea: choose one of promotion."),
    ("consent grant shut user 42 promotion", "closed"),
    ("consent list --account unknown", "There is no account unknown"),
    ("consent revoke con_nothing", "There is no consent con_nothing"),
)


def test_a_wish_that_cannot_be_granted_says_why(tollway: Command) -> None:
    tollway("account", "open", "acme")
    tollway("account", "open", "shut")
    tollway("account", "close", "shut", "--yes")
    tollway(*words("shop add 42 Lin --kind user --login lin --password-stdin"))
    for line, part in WRONG_WISHES:
        answer = tollway(*line.split())
        assert (answer.status, answer.out) == (1, ""), line
        assert part in answer.err
        assert answer.err.count("\n") == 1


def test_a_password_is_piped_or_asked_for_and_never_short(
    tollway: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = ["shop", "add", "42", "Lin", "--kind", "user", "--login", "lin"]
    assert "use --password-stdin" in tollway(*line).err
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
    assert "10 to 200 characters" in tollway(*line, "--password-stdin").err
    assert tollway("shop", "list", "--json").json == []


MATERIAL = {
    "promotion_id": 37116,
    "id": "m1",
    "promotion_type": "2",
    "condition_type": "1",
    "discount_type": "1",
    "total_count": 10,
    "remain_count": 3,
    "display_start_ms": 0,
    "display_end_ms": 2_000_000_000_000,
    "seller_id": "9",
    "nick": "青禾",
    "shop_title": "青禾生活",
    "promotion_url": "https://a.example/c",
    "benefits": [{"start_ms": 0, "end_ms": 2_000_000_000_000, "condition": 9900, "discount": 1000}],
    "items": [{"item_id": 5, "url": "https://a.example/i"}],
}


def _benefit(start_ms: int, end_ms: int) -> dict[str, int]:
    return {"start_ms": start_ms, "end_ms": end_ms, "condition": 1, "discount": 1}


WRONG_MATERIAL = (
    ({"promotion_type": "5"}, "promotion_type"),
    ({"remain_count": 11}, "remain_count"),
    ({"display_end_ms": 0}, "display_end_ms: it is not after"),
    # In seconds.
    ({"display_start_ms": 1_768_435_200}, "display_start_ms: it is before the year 2000"),
    ({"display_end_ms": 1_768_435_200}, "display_end_ms: it is before the year 2000"),
    (
        {"benefits": [_benefit(0, 1_768_435_200)]},
        "benefits[0].end_ms: it is before the year 2000",
    ),
    (
        {"benefits": [_benefit(10**12, 10**12), _benefit(10**12, 0), _benefit(10**12, 10**12 - 1)]},
        "benefits[2].end_ms: it is before start_ms; send a later time",
    ),
    ({"promotion_url": "javascript:alert(1)"}, "promotion_url"),
    ({"promotion_url": "https://a.example/?pid=mm_1_1_1"}, "pid"),
    ({"nick": None}, "nick"),
    ({"items": [{"item_id": "x", "url": ""}]}, "items"),
    # Rounded by a spreadsheet, or when it is read: another item.
    ({"items": [{"item_id": "6.20145E+11", "url": ""}]}, "items[0].item_id: it has an exponent"),
    ({"items": [{"item_id": "9007199254740993.0", "url": ""}]}, "item_id: it has decimals"),
    ({"promotion_id": "9007199254740993.0"}, "promotion_id: it has decimals"),
)


def test_material_is_loaded_once_and_what_is_wrong_set_aside(
    tollway: Command, workplace: Path
) -> None:
    file = workplace / "material.jsonl"
    records = [MATERIAL, *({**MATERIAL, **change} for change, _ in WRONG_MATERIAL)]
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    loaded = tollway("import", "promotion-material", str(file), "--json").json
    wrong = len(WRONG_MATERIAL)
    assert (loaded["read"], loaded["changed"], loaded["rejected"]) == (wrong + 1, 1, wrong)
    rejects = Path(loaded["rejects"]).read_text(encoding="utf-8").splitlines()
    for line, (_, part) in zip(rejects, WRONG_MATERIAL, strict=True):
        assert part in json.loads(line)["reason"]
    assert tollway("import", "promotion-material", str(file), "--json").json["changed"] == 0
