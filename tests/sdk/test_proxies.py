"""Proxies and certificates of the environment that the client cannot use, as desktops set them."""

from typing import Any

import pytest

from tests.support.ledger import Caller
from tollway_client import AsyncClient, Client
from tollway_client.command_line import main

pytestmark = pytest.mark.sqlite
_UNUSABLE = [
    ("ALL_PROXY", "socks://127.0.0.1:7890/", "Unknown scheme for proxy URL"),
    ("ALL_PROXY", "socks5://127.0.0.1:7890/", "pip install httpx[socks]"),
    ("SSL_CERT_FILE", "/nowhere.pem", "No such file or directory"),
]


@pytest.mark.parametrize(("variable", "value", "reason"), _UNUSABLE)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_what_the_environment_names_and_cannot_be_used_is_said(
    kind: type, variable: str, value: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match="that the environment names cannot be used") as refused:
        kind("t", "http://x")
    assert reason in str(refused.value) and f" {variable}" in str(refused.value)


@pytest.mark.parametrize(("variable", "value", "reason"), _UNUSABLE)
def test_the_remembered_token_is_not_blamed_for_it(
    signed_in: Caller,
    variable: str,
    value: str,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SystemExit):
        main(["balance"])
    printed = capsys.readouterr().err
    assert reason in printed and "damaged" not in printed
    assert printed.count("\n") == 1
