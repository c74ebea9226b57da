"""`tollway-call` against a real gateway."""

import csv
import io
import json
import os
import re
import stat
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.support.all_operations import good_request
from tests.support.gateway import Gateway
from tests.support.ledger import Caller, new_caller
from tollway.demo.owners import SHOP
from tollway.ledger.token_limits import TokenLimits
from tollway.operations.catalogue import BY_NAME
from tollway_client import Client
from tollway_client.command_line import main
from tollway_client.exporting import export
from tollway_client.types import CouponRecord, OrderEntry


def test_the_token_is_kept_for_its_owner_alone(signed_in: Caller, tmp_path: Path) -> None:
    (kept,) = (tmp_path / "config").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    main(["sign-out"])
    assert not kept.exists()


def test_a_file_that_others_could_read_is_shut_to_them(
    signed_in: Caller, world: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kept,) = (tmp_path / "config").iterdir()
    kept.chmod(0o644)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{signed_in.token}\n"))
    main(["sign-in", world.base_url])
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


@pytest.mark.sqlite
def test_without_a_home_folder_it_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def unknown(*_: object) -> None:
        raise KeyError

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(SystemExit):
        main(["balance"])
    said = "Error: You have no home folder: set XDG_CONFIG_HOME to one.\n"
    assert capsys.readouterr().err == said


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


def test_labels_are_saved_one_or_many(
    signed_in: Caller,
    world: Gateway,
    today: date,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    request = good_request(BY_NAME["waybills"], today)
    with Client(signed_in.token, world.base_url) as client:
        ids = [
            client.issue_waybill(**{**request, "order_sn": f"LABEL-{n:05}"}).objectId
            for n in range(2)
        ]
    for name, wanted, start in (
        ("one.zpl", ids[:1], b"^XA"),
        ("one.png", ids[:1], b"\x89PNG"),
        ("both.pdf", ids, b"%PDF"),
    ):
        main(["label", str(tmp_path / name), *wanted])
        assert (tmp_path / name).read_bytes().startswith(start)
        said = "1 label in" if len(wanted) == 1 else "2 labels in"
        assert said in capsys.readouterr().err


def test_the_balance_says_what_is_left_and_what_calls_cost(
    signed_in: Caller, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["balance"])
    printed = capsys.readouterr().out
    assert "credits 1,000" in printed and "waybills costs 10 credits\n" in printed
    assert "orders costs 1 credit\n" in printed and "product_analysis costs 1 call\n" in printed


def test_options_may_be_written_with_dashes(signed_in: Caller, capsys: Any) -> None:
    window = ["--start-time=2020-01-01", "--end-time=2040-01-01"]
    main(["download", "orders", "all.jsonl", f"--owner-id={SHOP.id}", *window, "--dry-run"])
    dashed = capsys.readouterr().out
    main(["download", "orders", "all.jsonl", f"--owner_id={SHOP.id}", *window, "--dry_run"])
    assert capsys.readouterr().out == dashed
    assert dashed == "It would cost 1 credit; 1,000 left.\n"
    for size in ("--page-size=1", "--page_size=1", "--pageSize=1", "--page-s=1", "--page_s=1"):
        main(["orders", "--owner", SHOP.id, size])
        assert len(json.loads(capsys.readouterr().out)["content"]) == 1


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("orders", "required: --owner-id\n"),
        ("orders --owner-id=1 --page-sizes=1", "no option --page-sizes: did you mean --page-size?"),
        ("orders --owner_id=1 --nothing=1", "error: there is no option --nothing\n"),
        ("orders --owner-id=1 --remark-t=1", "could match --remark-tag, --remark-tag-name\n"),
        ("orders --owner-id=1 --remark_t=1", "could match --remark-tag, --remark-tag-name\n"),
        ("orders --owner-id", "argument --owner-id: expected one argument"),
        ("orders --owner-id=1 more", "tollway-call orders: error: nothing is expected at more\n"),
        ("ordrs", "there is no command ordrs: did you mean orders?"),
        ("export claim", "there is no command claim: did you mean claims?"),
        ("balance --watch soon", "argument --watch: a number of seconds is expected, not soon"),
    ],
)
def test_what_an_option_lacks_is_said_by_its_name(line: str, sentence: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["orders", "--owner_id=1"], "103 OWNER_UNKNOWN"),
        (["export", "orders", "orders.xml", "--owner_id=1"], "must end in one of"),
        (
            ["export", "orders", "none/a.csv", "--owner_id=1"],
            "The folder of none/a.csv does not ex",
        ),
        (
            ["label", "none/a.pdf", "wb_1"],
            "The folder of none/a.pdf does not exist: make it first.",
        ),
        (["receipt", "nothing"], "RECEIPT_UNKNOWN"),
        (["label", "label.gif", "wb_1"], "must end in .pdf"),
        (["label", "labels.png", "wb_1", "wb_2"], "into one PDF"),
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


def test_the_gateway_is_understood_in_the_language_of_the_terminal(
    signed_in: Caller, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.delenv("LC_MESSAGES", raising=False)
    for locale, message in (("zh_CN.UTF-8", "账号不存在"), ("C.UTF-8", "Account name does not")):
        monkeypatch.setenv("LANG", locale)
        with pytest.raises(SystemExit):
            main(["orders", "--owner_id=1"])
        assert message in capsys.readouterr().err


def test_a_test_token_signs_in_to_the_sandbox(
    world: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    caller = new_caller(world.store, operations=(BY_NAME["orders"],), kind="test")
    # One character more: its checksum does not fit.
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{caller.token}0\n"))
    with pytest.raises(SystemExit):
        main(["sign-in", world.base_url])
    assert "CREDENTIAL_INVALID" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{caller.token}\n"))
    main(["sign-in", world.base_url])
    signed_in = f"You are signed in to {world.base_url} with a test token. Its calls go to"
    assert signed_in in capsys.readouterr().out
    main(["orders", f"--owner_id={SHOP.id}"])
    assert json.loads(capsys.readouterr().out)["totalElements"] > 0


@pytest.mark.parametrize("kind", ["live", "test"])
def test_a_token_that_is_refused_from_this_address_does_not_sign_in(
    world: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, kind: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    limits = TokenLimits(networks=["203.0.113.7/32"])
    orders = (BY_NAME["orders"],)
    caller = new_caller(world.store, operations=orders, kind=kind, limits=limits)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{caller.token}\n"))
    with pytest.raises(SystemExit):
        main(["sign-in", world.base_url])
    assert "TOKEN_NOT_FROM_HERE" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_claims_are_saved_for_times_with_a_zone(
    signed_in: Caller, tmp_path: Path, today: date, capsys: Any
) -> None:
    request = good_request(BY_NAME["coupon_claims"], today)
    of = [f"--sid={request['sid']}", "--type=4"]
    start = datetime.fromtimestamp(int(request["startTime"]), ZoneInfo("Asia/Shanghai"))
    end = datetime.fromtimestamp(int(request["endTime"]), UTC)
    saved = []
    for name, first, last in (
        ("seconds", request["startTime"], request["endTime"]),
        ("zones", start.isoformat(), end.isoformat().replace("+00:00", "Z")),
    ):
        file = tmp_path / f"{name}.jsonl"
        main(["export", "claims", str(file), f"--startTime={first}", f"--endTime={last}", *of])
        saved.append(file.read_bytes())
    assert saved[0] == saved[1] != b""
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["export", "claims", "x.jsonl", "--startTime=2026-01-01", "--endTime=2026-01-02", *of])
    assert "startTime: send seconds, or a time with its zone" in capsys.readouterr().err


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
    signs = "=+-@\t＝＋－＠"
    records = [CouponRecord(*(["x"] * 3), f"{sign}cmd", *(["x"] * 6)) for sign in signs]
    assert export(iter(records), tmp_path / "claims.csv", CouponRecord) == len(signs)
    written = (tmp_path / "claims.csv").read_text(encoding="utf-8-sig")
    assert all(f",'{sign}cmd" in written for sign in signs)


@pytest.mark.sqlite
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_list_without_records_replaces_an_older_file(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"orders.{ending}"
    file.write_text("of last month")
    assert export(iter([]), file, OrderEntry) == 0
    assert b"of last month" not in file.read_bytes()
    if ending == "csv":
        header = file.read_text(encoding="utf-8-sig")
        assert header.startswith("receiver_name,") and header.count("\n") == 1


@pytest.mark.sqlite
def test_a_flag_after_thousands_of_orders_without_one_is_saved_as_parquet(tmp_path: Path) -> None:
    from pyarrow import parquet  # noqa: PLC0415 - every run of the tests would pay for loading it

    texts = ["x"] * 11
    plain = OrderEntry(*texts, False, 1, 2, "", 1, 9.9, 1, None, None, 0)
    flagged = replace(plain, remark_tag="1")
    file = tmp_path / "orders.parquet"
    assert export(iter([*[plain] * 5000, flagged]), file, OrderEntry) == 5001
    assert parquet.read_table(file)["remark_tag"].to_pylist()[-2:] == [None, "1"]


@pytest.mark.parametrize(
    ("token", "url", "sentence"),
    [
        ("tw_live_x", "gateway.example", "must begin with https://"),
        ("", "https://gateway.example", "copy all of it"),
        ("tw_test_…", "https://gateway.example", "copy all of it"),
    ],
)
@pytest.mark.sqlite
def test_a_sign_in_that_cannot_succeed_says_why(
    token: str, url: str, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{token}\n"))
    with pytest.raises(SystemExit):
        main(["sign-in", url])
    assert sentence in capsys.readouterr().err


@pytest.mark.sqlite
@pytest.mark.parametrize("command", ["orders", "export orders", "download orders"])
def test_the_help_explains_each_parameter(command: str, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "--owner-id TEXT Shop owner id. Send a text" in printed
    assert printed.count("Shop owner id.") == 1
    assert not re.search(r"--\w*[A-Z_]", printed)


@pytest.mark.sqlite
def test_the_help_says_how_to_begin(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "Begin with: tollway-call sign-in https://gateway.example." in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_terminal_that_cannot_show_an_answer_gets_it_with_escapes(
    signed_in: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", terminal)
    main(["orders", f"--owner_id={SHOP.id}", "--pageSize=1"])
    (order,) = json.loads(terminal.buffer.getvalue())["content"]  # type: ignore[attr-defined]
    assert not order["goods_name"].isascii()


def test_a_reader_that_has_enough_is_no_error(
    signed_in: Caller, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        with pytest.raises(SystemExit):
            main(["orders", f"--owner_id={SHOP.id}"])
    assert capsys.readouterr().err == ""


def test_a_damaged_file_or_text_is_a_sentence(
    signed_in: Caller, tmp_path: Path, capsys: Any
) -> None:
    file = tmp_path / "orders.jsonl"
    begun = tmp_path / "orders.jsonl.export"
    begun.touch()
    window = ["--start_time=2026-01-01", "--end_time=2026-02-01"]
    with pytest.raises(SystemExit):
        main(["download", "orders", str(file), f"--owner_id={SHOP.id}", *window])
    assert f"{begun} is damaged: delete it" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["orders", "--owner_id=\udcff"])
    assert "give valid UTF-8" in capsys.readouterr().err
    (tmp_path / "config/tollway-call.json").write_text("{}")
    with pytest.raises(SystemExit):
        main(["balance"])
    assert "is damaged. Sign in again" in capsys.readouterr().err
