"""`tollway-call download`, `export` and `label`: what is paid, and what becomes of the file."""

import json
import time
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.support.all_operations import good_request
from tests.support.gateway import Gateway
from tests.support.ledger import Caller, credits_left
from tollway.demo.owners import SHOP
from tollway.operations.catalogue import BY_NAME
from tollway_client import Client
from tollway_client.command_line import main


def test_an_export_is_paid_once_and_its_file_goes_on_where_it_broke_off(
    signed_in: Caller,
    world: Gateway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "orders.jsonl"
    window = [f"--owner_id={SHOP.id}", "--start_time=2020-01-01", "--end_time=2040-01-01"]
    command = ["download", "orders", str(file), *window]
    main([*command, "--dry_run"])
    cost = int(capsys.readouterr().out.split()[3])
    before = credits_left(world.store, signed_in)

    def ends(records: Any, *_: object) -> None:
        Path(f"{file}.part").write_text(json.dumps({"order_sn": next(records).order_sn}) + "\n")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr("tollway_client.command_line.download", lambda read, *_: ends(read(None)))
        main(command)
    main(command)
    rows = [json.loads(line)["order_sn"] for line in file.read_text("utf-8").splitlines()]
    assert len(rows) == len(set(rows)) > 1 and f"{len(rows):,} records" in capsys.readouterr().err
    assert credits_left(world.store, signed_in) == before - cost
    assert sorted(each.name for each in tmp_path.glob("orders*")) == ["orders.jsonl"]


def test_a_finished_file_is_not_paid_for_again_unasked(
    signed_in: Caller, world: Gateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, window = tmp_path / "orders.jsonl", ["--start_time=2020-01-01", "--end_time=2040-01-01"]
    for command in (
        ["download", "orders", str(file), f"--owner_id={SHOP.id}", *window],
        ["export", "orders", str(file), f"--owner_id={SHOP.id}"],
    ):
        main([*command, "--replace"])
        before, modified = credits_left(world.store, signed_in), file.stat().st_mtime_ns
        with pytest.raises(SystemExit):
            main(command)
        sentence = f"{file} exists already: name another file, or add --replace to pay for it"
        assert sentence in capsys.readouterr().err
        assert credits_left(world.store, signed_in) == before
        assert file.stat().st_mtime_ns == modified
        main([*command, "--replace"])
        assert credits_left(world.store, signed_in) < before
        assert file.stat().st_mtime_ns > modified


def test_a_label_does_not_replace_another_file_unasked(
    signed_in: Caller,
    world: Gateway,
    today: date,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    request = good_request(BY_NAME["waybills"], today)
    with Client(signed_in.token, world.base_url) as client:
        waybill = client.issue_waybill(**{**request, "order_sn": "LABEL-REPLACED"})
    file = tmp_path / "label.zpl"
    file.write_text("not printed yet")
    command = ["label", str(file), waybill.objectId]
    with pytest.raises(SystemExit):
        main(command)
    assert f"{file} exists already: name another file, or add --replace" in capsys.readouterr().err
    assert file.read_text() == "not printed yet"
    main([*command, "--replace"])
    assert file.read_bytes().startswith(b"^XA")


def test_a_file_that_is_being_replaced_is_finished_as_any_other(
    signed_in: Caller, world: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text("of last month")
    window = [f"--owner_id={SHOP.id}", "--start_time=2020-01-01", "--end_time=2040-01-01"]
    command = ["download", "orders", str(file), *window]
    main([*command, "--dry_run"])

    def ends(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr("tollway_client.command_line.download", ends)
        main([*command, "--replace"])
    paid = credits_left(world.store, signed_in)
    assert file.read_text() == "of last month"
    main(command)
    assert credits_left(world.store, signed_in) == paid
    assert "of last month" not in file.read_text("utf-8")


def test_an_export_that_is_too_old_is_not_paid_again_unasked(
    signed_in: Caller, world: Gateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "orders.jsonl"
    begun, partial = Path(f"{file}.export"), Path(f"{file}.part")
    window = {"owner_id": SHOP.id, "start_time": "2020-01-01", "end_time": "2040-01-01"}
    begun.write_text(json.dumps([window, "old", time.time() - 23.5 * 3600]))
    partial.write_text('{"order_sn": "1"}\n')
    before = credits_left(world.store, signed_in)
    with pytest.raises(SystemExit):
        main(["download", "orders", str(file), *(f"--{k}={v}" for k, v in window.items())])
    assert f"older than a day: delete {begun} to pay for a new one" in capsys.readouterr().err
    assert partial.exists() and credits_left(world.store, signed_in) == before


def test_an_export_that_was_refused_leaves_nothing_to_be_finished(
    signed_in: Caller, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, begin = tmp_path / "orders.jsonl", "--start_time=2020-01-01"
    command = ["download", "orders", str(file), f"--owner_id={SHOP.id}", begin]
    with pytest.raises(SystemExit):
        main([*command, "--end_time=2019-01-01"])
    assert "100 WINDOW_BACKWARDS" in capsys.readouterr().err
    assert list(tmp_path.glob("orders*")) == []
    main([*command, "--end_time=2040-01-01"])
    assert [each.name for each in tmp_path.glob("orders*")] == ["orders.jsonl"]
