"""The URL of a shared database: what it tells, and to whom."""

import pytest

from tollway.store.database import StoreError
from tollway.store.open import key_path, without_password
from tollway.store.postgresql.urls import unverified_hosts, urls_by_host

pytestmark = pytest.mark.postgresql


def test_a_password_is_never_shown() -> None:
    url = "postgresql://me:secret@one:5432,two:5433/ledger?sslmode=require"
    assert without_password(url) == "postgresql://me@one:5432,two:5433/ledger"
    assert urls_by_host(url) == [
        "postgresql://me:secret@one:5432/ledger?sslmode=require",
        "postgresql://me:secret@two:5433/ledger?sslmode=require",
    ]


@pytest.mark.parametrize(
    ("rest", "unverified"),
    [
        ("me@localhost,127.0.0.2:1,[::1]:1/ledger", []),
        ("/ledger", []),
        ("me@%2Frun%2Fpostgresql/ledger", []),
        ("/ledger?host=/run/postgresql", []),
        ("me@127.0.0.1:1,db1:1,db2/ledger", ["db1", "db2"]),
        ("me@10.0.0.1,[fd00::1]:1/ledger", ["10.0.0.1", "fd00::1"]),
        ("/ledger?host=db1", ["db1"]),
        ("db1/ledger?sslmode=require", ["db1"]),
        ("db1/ledger?sslmode=verify-ca", ["db1"]),
        ("db1/ledger?sslmode=verify-full", []),
    ],
)
def test_hosts_elsewhere_must_prove_who_they_are(rest: str, unverified: list[str]) -> None:
    assert unverified_hosts(f"postgresql://{rest}") == unverified


def test_the_key_file_must_be_named() -> None:
    with pytest.raises(StoreError, match="the setting key_file"):
        key_path("postgresql://localhost/ledger", "")
