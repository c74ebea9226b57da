"""A gateway warns at its start if another machine could pose as its database, and says which files
it lacks to verify it."""

import json

import pytest

from tests.support import forks
from tests.support.gateway import Gateway
from tests.support.ports import free_port
from tests.support.stores import Store

pytestmark = pytest.mark.postgresql

# Behind one that answers, it is never asked for.
ELSEWHERE = ",db.example:5432/"
SENTENCE = (
    "A machine between here and db.example could read and change what is sent: add "
    "sslmode=verify-full&sslrootcert=FILE to the URL of setting database."
)


def _elsewhere(url: str) -> str:
    return ELSEWHERE.join(url.rsplit("/", 1))


@pytest.mark.parametrize("is_elsewhere", [True, False])
def test_it_is_reported_in_the_log_and_in_the_greeting(
    own_store: Store, is_elsewhere: bool
) -> None:
    if is_elsewhere:
        own_store.url = _elsewhere(own_store.url)
    gateway = Gateway(own_store, workers=2)
    assert gateway.process.stdout is not None
    greeting = []
    for line in gateway.process.stdout:
        greeting.append(line.strip())
        if "Ctrl+C" in line:
            break
    assert gateway.client.get("/readyz").status_code == 200
    assert gateway.stop() == 0
    logged = [json.loads(line) for line in gateway.log().splitlines()]
    warned = [
        (line["level"], line["message"]) for line in logged if "between here" in line["message"]
    ]
    assert warned == ([("warning", SENTENCE)] if is_elsewhere else [])
    assert greeting.count(SENTENCE) == is_elsewhere


def test_a_replica_is_reported_too_and_its_url_must_be_readable(own_store: Store) -> None:
    gateway = Gateway(own_store, read_database=_elsewhere(own_store.url))
    assert gateway.stop() == 0
    assert SENTENCE.replace("setting database", "setting read_database") in gateway.log()
    settings = {**own_store.settings, "TOLLWAY_READ_DATABASE": "postgresql://me:Xq7/@db.example/x"}
    serve = ("serve", "--port", str(free_port()))
    refused = forks.run("tollway", *serve, env=settings, cwd=own_store.path.parent)
    assert refused.returncode == 1
    assert refused.stderr.startswith("A PostgreSQL URL cannot be read: ")
    assert "Xq7" not in refused.stderr


def test_a_certificate_that_is_not_there_is_asked_for() -> None:
    """The driver alone would say "No such file or directory"."""
    url = "postgresql://me@127.0.0.1:1/x?sslmode=verify-full&sslrootcert=/nowhere/db.pem"
    refused = forks.run("tollway", "account", "list", "--database", url)
    assert refused.returncode == 1
    assert "127.0.0.1:1: No such file or directory: " in refused.stderr
    assert "sslrootcert in the URL" in refused.stderr
