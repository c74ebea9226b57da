"""Every setting is shown with its value, its origin and its meaning."""

import os
from dataclasses import fields
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tollway.settings import Settings


def test_every_setting_is_shown_with_its_origin(
    process: Command, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workplace / "tollway.toml").write_text('port = 9000\ntimezone = "UTC"\nlog_calls = "none"\n')
    monkeypatch.setenv("TOLLWAY_PORT", "9001")
    answer = process("settings", "--database", "sqlite:///other.db", "--json")
    origins = {origin["name"]: (origin["value"], origin["source"]) for origin in answer.json}
    assert list(origins) == [setting.name for setting in fields(Settings)]
    assert origins["database"] == ("sqlite:///other.db", "command line")
    assert origins["port"] == (9001, "environment")
    assert origins["timezone"] == ("UTC", "tollway.toml")
    assert origins["log_calls"] == ("none", "tollway.toml")
    assert origins["host"] == ("127.0.0.1", "default")
    assert all(origin["meaning"] for origin in answer.json)
    assert list(workplace.glob("*.db")) == []


def test_the_table_shows_values_as_they_are_written(tollway: Command) -> None:
    shown = tollway("settings").out
    assert os.environ["TOLLWAY_DATABASE"] in shown
    assert "environment" in shown
    assert "failures" in shown
    assert "16384" in shown


# Every part of the password has one of these in it.
SECRETS = ("Xq7", "Zw9")
READABLE = (
    "postgresql://me:Xq7Zw9@127.0.0.1:1/ledger",
    "postgresql://me:Xq7%2FZw9@127.0.0.1:1/ledger?application_name=x",
    "postgresql://me@127.0.0.1:1/ledger?password=Xq7Zw9",
)
UNREADABLE = (
    "postgresql://me:Xq7/Zw9@127.0.0.1:1/ledger",
    "postgresql://me:Xq7?Zw9@127.0.0.1:1/ledger",
    "postgresql://me:Xq7#Zw9@127.0.0.1:1/ledger",
    "postgresql://me:Xq7@Zw9@127.0.0.1:1/ledger",
    "postgresql://me:Xq7@8:Zw9@127.0.0.1:1/ledger",
    "postgresql://me:Xq7[Zw9@127.0.0.1:1/ledger",
    "postgresql://me:Xq7\N{ACCOUNT OF}Zw9@127.0.0.1:1/ledger",
    "postgresql://me:1/Xq7Zw9@127.0.0.1:1/ledger",
    "postgresql://me:1?Xq7Zw9@127.0.0.1:1/ledger",
    "postgresql://me:Xq7Zw9/ledger",
    "postgresql://me:Xq7Zw9@127.0.0.1:many/ledger",
    "postgresql://me:Xq7Zw9@127.0.0.1:65536/ledger",
    "postgresql://me:Xq7Zw9@127.0.0.1:1,/ledger",
    "postgresql://me@127.0.0.1:1/ledger?password=Xq7&Zw9",
)
UNKNOWN = ("postgresql:me:Xq7Zw9@127.0.0.1:1/ledger", "postgers://me:Xq7Zw9@127.0.0.1:1/ledger")


@pytest.mark.postgresql
@pytest.mark.parametrize("url", [*READABLE, *UNREADABLE, *UNKNOWN])
def test_a_password_is_never_shown(
    tollway: Command, workplace: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("TOLLWAY_DATABASE", url)
    if url in READABLE:
        # Then it is the target that is complained of.
        tollway("migrate", "--database", "sqlite:///old.db")
    shown = tollway("settings")
    refused = [tollway("account", "list"), tollway("move", "--from", "sqlite:///old.db")]
    for answer in (shown, *refused):
        assert not [each for each in SECRETS if each in answer.out + answer.err]
    assert [answer.status for answer in refused] == [1, 1]
    if url in READABLE:
        assert " postgresql://me@127.0.0.1:1/ledger " in shown.out
        for answer in refused:
            assert "postgresql://me@127.0.0.1:1/ledger cannot be" in answer.err
    if url in UNREADABLE:
        for answer in (shown, *refused):
            assert answer.err.startswith("A PostgreSQL URL cannot be read: write postgresql://")


def test_a_mistyped_variable_is_named_with_what_was_meant(
    process: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOLLWAY_DATABSE", "sqlite:///x.db")
    answer = process("account", "list")
    assert answer.status == 1
    assert answer.err == (
        "The environment sets TOLLWAY_DATABSE, which is not a setting. Did you mean database?\n"
    )


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("port = 'many'", "Setting port (from tollway.toml) must be a whole number"),
        ("colour = 'red'", "tollway.toml sets colour, which is not a setting."),
        ("port = ", "tollway.toml is not valid TOML"),
        ("timezone = 'Mars/Olympus'", "Mars/Olympus is not a known time zone"),
        ("timezone = 'America'", "America is not a known time zone"),
        ("public_url = 'http://[::1'", "Setting public_url must look like https://"),
        ("public_url = 'https://a b'", "Setting public_url must look like https://"),
        ("public_url = 'https://a#b'", "Setting public_url must look like https://"),
        ("public_url = 'https://me:pw@a'", "Setting public_url must look like https://"),
        ("public_url = 'HTTPS://a'", "Setting public_url must look like https://"),
        ("public_url = 'https://a?'", "Setting public_url must look like https://"),
        ("public_url = 'https://a:'", "Setting public_url must look like https://"),
        ("public_url = 'https://a:99999'", "Setting public_url must look like https://"),
        ("webhook_internal_hosts = 'a.internal; b'", "needs hosts like hooks.internal"),
        ("webhook_internal_hosts = 'a, http://b:80'", "and http://b:80 is none."),
        ("host = ''", "Setting host (from tollway.toml) must not be empty."),
        ("host = 5", "Setting host (from tollway.toml) must be a text, in quotation marks."),
        (f"timezone = '{'a' * 5000}'", "aaa is not a known time zone"),
        ("consent_days = 5_000_000", "Setting consent_days (from tollway.toml) must be a whole"),
        # Taken for milliseconds: SQLite's wait, and the join of a process, would overflow.
        ("call_timeout_s = 10_000", "Setting call_timeout_s (from tollway.toml) must be a whole"),
        ("shutdown_timeout_s = 30_000", "must be a whole number from 1 to 3,600."),
    ],
)
@pytest.mark.sqlite
def test_a_wrong_file_is_reported_in_a_sentence(
    tollway: Command, workplace: Path, text: str, part: str
) -> None:
    (workplace / "tollway.toml").write_text(text)
    answer = tollway("settings")
    assert (answer.status, answer.out) == (1, "")
    assert part in answer.err
    assert answer.err.count("\n") == 1


def test_a_file_that_an_editor_began_with_a_mark_is_read(
    tollway: Command, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workplace / "tollway.toml").write_bytes(
        b"\xef\xbb\xbfport = 9000\nwebhook_internal_hosts = 'a.internal, ::1, 10.0.0.5,'\n"
    )
    # A variable that is empty names no file.
    monkeypatch.setenv("TOLLWAY_CONFIG", "")
    origins = {origin["name"]: origin["value"] for origin in tollway("settings", "--json").json}
    assert origins["port"] == 9000


def test_times_are_shown_in_the_zone_of_the_settings(
    tollway: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tollway.ledger.runtime.Runtime.at_s", lambda _: 1_767_225_600)
    tollway("migrate")
    tollway("account", "open", "acme")
    assert "2026-01-01 08:00:00" in tollway("account", "list").out
    monkeypatch.setenv("TOLLWAY_TIMEZONE", "America/New_York")
    shown = tollway("account", "list").out
    assert "2025-12-31 19:00:00" in shown
    assert "times in America/New_York" in shown
