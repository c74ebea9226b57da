"""`tollway-call` against a real gateway."""

import csv
import io
import json
import stat
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.support.all_operations import all_operations_caller, good_request
from tests.support.gateway import Gateway
from tests.support.ledger import Caller, new_caller
from tollway.demo.owners import SHOP
from tollway.operations.catalogue import BY_NAME
from tollway_client.command_line import main
from tollway_client.exporting import export
from tollway_client.types import CouponRecord


@pytest.fixture
def signed_in(
    world: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> Caller:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    caller = all_operations_caller(world.store)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{caller.token}\n"))
    main(["sign-in", world.base_url])
    assert "You are signed in" in capsys.readouterr().out
    return caller


def test_the_token_is_kept_for_its_owner_alone(signed_in: Caller, tmp_path: Path) -> None:
    (kept,) = (tmp_path / "config").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    main(["sign-out"])
    assert not kept.exists()


def test_a_call_prints_its_answer(
    signed_in: Caller, today: date, capsys: pytest.CaptureFixture[str]
) -> None:
    request = good_request(BY_NAME["product_analysis"], today)
    main(["product-analysis", *(f"--{name}={value}" for name, value in request.items())])
    assert json.loads(capsys.readouterr().out)["itemId"] == request["product_id"]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_all_orders_are_saved(signed_in: Caller, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"orders.{ending}"
    main(["export", "orders", str(file), f"--owner_id={SHOP.id}"])
    text = file.read_text(encoding="utf-8-sig")
    rows = (
        list(csv.DictReader(io.StringIO(text)))
        if ending == "csv"
        else [json.loads(line) for line in text.splitlines()]
    )
    assert rows and len({row["order_sn"] for row in rows}) == len(rows)
    assert not list(tmp_path.glob("*.part"))


def test_the_balance_says_what_is_left_and_what_calls_cost(
    signed_in: Caller, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["balance"])
    printed = capsys.readouterr().out
    assert "credits 1,000" in printed and "waybills costs 10 credits" in printed


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["orders", "--owner_id=1"], "103 OWNER_UNKNOWN"),
        (["export", "orders", "orders.xml", "--owner_id=1"], "must end in one of"),
        (["receipt", "nothing"], "RECEIPT_UNKNOWN"),
    ],
)
def test_what_fails_is_a_sentence_and_a_status(
    signed_in: Caller,
    arguments: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 1
    assert sentence in capsys.readouterr().err


def test_a_shop_that_has_not_approved_gives_the_link(
    world: Gateway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(SystemExit):
        main(["balance"])
    assert "Sign in first" in capsys.readouterr().err
    caller = new_caller(world.store, operations=(BY_NAME["orders"],), credits_=10)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{caller.token}\n"))
    main(["sign-in", world.base_url])
    with pytest.raises(SystemExit):
        main(["orders", f"--owner_id={SHOP.id}"])
    assert f"approve here: {world.base_url}" in capsys.readouterr().err


@pytest.mark.sqlite
def test_a_text_that_a_spreadsheet_would_run_is_made_harmless(tmp_path: Path) -> None:
    record = CouponRecord(*(["x"] * 3), "=cmd|' /C calc'!A0", *(["x"] * 6))
    assert export(iter([record]), tmp_path / "claims.csv") == 1
    assert "'=cmd" in (tmp_path / "claims.csv").read_text(encoding="utf-8-sig")
