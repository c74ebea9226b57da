"""A command loads what it needs and nothing else: most of its time would go there."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from typer.main import get_command

from tests.cli.conftest import Command
from tests.support.ports import free_port
from tests.support.stores import Store
from tollway.cli.lazy import Group, LazyCommand
from tollway.cli.main import app
from tollway.store.migrate import _config, newest_revision

# What a gateway without pages, remote carriers or webhooks never needs.
NOT_FOR_CALLS = {
    "alembic",
    "asyncpg",
    "httpx2",
    "jinja2",
    "PIL",
    "pydantic",
    "rich",
    "sqlalchemy.dialects.postgresql",
    "tollway.gateway.openapi",
    "tollway.gateway.site",
    "tollway.intake.push",
    "tollway.web",
}
# What the main process leaves to its workers.
FOR_WORKERS = {"starlette", "tollway.gateway.gateway", "tollway.operations", "tollway.pipeline"}
# What takes long to load and only some commands need.
HEAVY = {
    "alembic",
    "asyncpg",
    "cryptography",
    "granian",
    "httpx2",
    "jinja2",
    "PIL",
    "prometheus_client",
    "pydantic",
    "rich",
    "starlette",
    "uvloop",
}
_PROBE = """
import sys
from tollway.__main__ import main
try:
    main(sys.argv[1:])
finally:
    loaded = {name.partition(".")[0] for name in sys.modules}
    ours = {name for name in sys.modules if name.startswith("tollway.cli.")}
    sys.stderr.write(" ".join(loaded | ours))
"""

# Counts the statements that are made while modules load.
_STATEMENTS = """
from sqlalchemy.sql.dml import Delete, Insert, Update
from sqlalchemy.sql.selectable import Select

made = []
for kind in (Delete, Insert, Select, Update):
    def init(self, *given, _init=kind.__init__, **named):
        made.append(self)
        _init(self, *given, **named)
    kind.__init__ = init
import tollway.gateway.worker
print(len(made))
"""


def loaded_by(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout
    return set(done.stderr.split())


@pytest.mark.sqlite
def test_the_version_loads_no_command_and_no_library_but_the_parser() -> None:
    loaded = loaded_by("--version")
    assert not loaded & (HEAVY | {"sqlalchemy", "msgspec", "asyncio", "apsw"})
    assert {each for each in loaded if each.startswith("tollway.cli.")} == {
        "tollway.cli.lazy",
        "tollway.cli.main",
        "tollway.cli.usage",
        "tollway.cli.values",
    }


@pytest.mark.sqlite
def test_the_help_loads_no_command() -> None:
    loaded = loaded_by("--help")
    assert not loaded & (HEAVY - {"rich"} | {"sqlalchemy", "msgspec", "asyncio", "apsw"})
    assert "tollway.cli.account" not in loaded


def test_an_import_loads_nothing_to_take_the_name_of_its_file(
    tollway: Command, ledger_store: Store, workplace: Path
) -> None:
    (workplace / "orders.jsonl").touch()
    assert "pydantic" not in loaded_by("import", "orders", str(workplace / "orders.jsonl"))


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_list_of_accounts_loads_one_engine_and_no_other_command(
    tollway: Command, ledger_store: Store, form: list[str]
) -> None:
    tollway("account", "open", "acme")
    loaded = loaded_by("account", "list", *form)
    assert not loaded & (HEAVY - ({"asyncpg"} if ledger_store.is_shared else set()))
    assert "tollway.cli.account" in loaded
    assert "tollway.cli.ledger" not in loaded


@pytest.mark.sqlite
def test_a_gateway_of_two_workers_gives_no_warning_to_who_asks_for_all(tmp_path: Path) -> None:
    options = ["--database", f"sqlite:///{tmp_path}/tollway.db", "--port", str(free_port())]
    with subprocess.Popen(
        [sys.executable, "-W", "always", "-m", "tollway", "serve", *options, "--workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as server:
        assert server.stdout is not None and server.stderr is not None
        assert server.stdout.readline().startswith("Tollway is serving")
        server.send_signal(signal.SIGTERM)
        assert "Warning" not in server.stderr.read()


@pytest.mark.sqlite
def test_a_gateway_loads_what_calls_need_and_its_main_process_less(
    tollway: Command, tmp_path: Path
) -> None:
    database = f"sqlite:///{tmp_path}/tollway.db"
    assert tollway("migrate", "--database", database).status == 0
    options = ["--database", database, "--port", str(free_port())]
    imports = tmp_path / "imports"
    with (
        imports.open("wb") as written,
        subprocess.Popen(
            [sys.executable, "-X", "importtime", "-m", "tollway", "serve", *options],
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        ) as server,
    ):
        assert server.stdout is not None
        assert server.stdout.readline().startswith("Tollway is serving")
        server.send_signal(signal.SIGTERM)
    found = re.findall(r"\|\s+(\S+)$", imports.read_text(), re.MULTILINE)
    assert not NOT_FOR_CALLS & set(found)
    # The worker is loaded after the fork, and names the process's own modules once more.
    assert "tollway.gateway.gateway" in found
    assert not FOR_WORKERS & set(found[: found.index("tollway.gateway.server")])


@pytest.mark.sqlite
def test_statements_are_made_on_first_use_and_not_while_modules_load() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STATEMENTS], capture_output=True, text=True, check=True
    )
    # Of more than 450; those of a few queries share a part that is made once.
    assert int(done.stdout) < 100


def test_the_list_of_commands_says_of_each_what_it_says_itself() -> None:
    root = get_command(app)
    assert isinstance(root, Group)
    for name, entry in root.commands.items():
        assert isinstance(entry, LazyCommand)
        command = entry.load()
        assert command.name == name
        assert (command.help or "").partition("\n\n")[0].replace("\n", " ") == entry.help


def test_the_newest_revision_is_the_newest_that_alembic_knows() -> None:
    assert newest_revision() == ScriptDirectory.from_config(_config()).get_current_head()
