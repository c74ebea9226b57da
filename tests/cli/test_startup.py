"""A command loads what it needs and nothing else: most of its time would go there."""

import json
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
    "starlette",
    "tollway.gateway.openapi",
    "tollway.gateway.site",
    "tollway.intake.push",
    "tollway.web",
}
# What the main process leaves to its workers.
FOR_WORKERS = {
    "cryptography",
    "tollway.consent.owners",
    "tollway.gateway.gateway",
    "tollway.operations",
    "tollway.pipeline",
}
# What takes long to load and only some commands need.
HEAVY = {
    "alembic",
    "asyncpg",
    "cryptography",
    "granian",
    "httpx2",
    "jinja2",
    "PIL",
    "pydantic",
    "rich",
    "starlette",
    "uvloop",
}
# Runs commands one after the other, and tells what is loaded after each: what a command does not
# find loaded is its own.
_PROBE = """
import json, sys
from tollway.__main__ import main
for command in json.loads(sys.argv[1]):
    try:
        main(command)
    except SystemExit as ended:
        assert not ended.code
    sys.stdout.flush()
    loaded = {name.partition(".")[0] for name in sys.modules if name != "json"}
    ours = {name for name in sys.modules if name.startswith("tollway.cli.")}
    sys.stderr.write(" ".join(loaded | ours) + chr(10))
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


_TELLING = [sys.executable, "-W", "always", "-X", "importtime"]


def loaded_by(*commands: tuple[str, ...]) -> list[set[str]]:
    """What is loaded after each of these, run one after the other in one process."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout
    loaded = [set(line.split()) for line in done.stderr.splitlines()]
    assert len(loaded) == len(commands), done.stderr
    return loaded


@pytest.mark.sqlite
def test_the_version_loads_no_library_but_the_parser_and_neither_it_nor_the_help_a_command() -> (
    None
):
    after_version, after_help = loaded_by(("--version",), ("--help",))
    assert not after_version & (HEAVY | {"sqlalchemy", "msgspec", "asyncio", "apsw"})
    assert {each for each in after_version if each.startswith("tollway.cli.")} == {
        "tollway.cli.arguments",
        "tollway.cli.lazy",
        "tollway.cli.main",
    }
    assert not after_help & (HEAVY - {"rich"} | {"sqlalchemy", "msgspec", "asyncio", "apsw"})
    assert "tollway.cli.account" not in after_help


def test_a_list_and_an_import_load_one_engine_and_no_other_command(
    tollway: Command, ledger_store: Store, workplace: Path
) -> None:
    tollway("account", "open", "acme")
    (workplace / "orders.jsonl").touch()
    listing = ("account", "list")
    importing = ("import", "orders", str(workplace / "orders.jsonl"))
    *after_lists, after_import = loaded_by(listing, (*listing, "--json"), importing)
    for loaded in after_lists:
        assert not loaded & (HEAVY - ({"asyncpg"} if ledger_store.is_shared else set()))
        assert "tollway.cli.account" in loaded
        assert "tollway.cli.ledger" not in loaded
    # To take the name of its file.
    assert "pydantic" not in after_import


@pytest.mark.sqlite
def test_a_gateway_loads_what_calls_need_its_main_process_less_and_nothing_gives_a_warning(
    tollway: Command, tmp_path: Path
) -> None:
    """Of two workers, and shown to who asks for all warnings."""
    database = f"sqlite:///{tmp_path}/tollway.db"
    assert tollway("migrate", "--database", database).status == 0
    options = ["--database", database, "--port", str(free_port()), "--workers", "2"]
    shown = tmp_path / "shown"
    with (
        shown.open("wb") as written,
        subprocess.Popen(
            [*_TELLING, "-m", "tollway", "serve", *options],
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
    assert "Warning" not in shown.read_text()
    found = re.findall(r"\|\s+(\S+)$", shown.read_text(), re.MULTILINE)
    assert not NOT_FOR_CALLS & set(found)
    # The workers are loaded after the fork, and name the process's own modules once more.
    assert "tollway.gateway.gateway" in found
    assert not FOR_WORKERS & set(found[: found.index("tollway.gateway.supervisor")])


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
