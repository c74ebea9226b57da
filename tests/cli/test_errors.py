"""An error is one sentence on stderr and an exit status; nothing on stdout, never a traceback."""

import shlex
import subprocess
import sys
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import apsw
import pytest

from tests.cli.conftest import Answer, Command
from tests.support.engines import Engine
from tests.support.late_answers import LateAnswers
from tests.support.postgresql import new_database, run_on
from tests.support.stores import Store
from tollway.__main__ import main
from tollway.store.open import open_database


def assert_one_sentence(answer: Answer, status: int, *parts: str) -> None:
    assert answer.status == status, answer
    assert answer.out == ""
    assert answer.err.count("\n") == 1, answer.err
    assert "Traceback" not in answer.err
    for part in parts:
        assert part in answer.err


WRONG_WISHES = (
    ("account open acme", "already an account named acme"),
    ("account show unknown", "There is no account unknown: `tollway account list`"),
    ("account show ACME", "There is no account ACME. Did you mean acme?"),
    ("account close shut", "is closed already"),
    ("account suspend shut", "is closed already"),
    ("account resume shut", "is not suspended"),
    ("token issue shut", "closed"),
    ("token issue unknown", "There is no account unknown"),
    ("token revoke tok_nothing", "no such token"),
    ("client add shut", "closed"),
    ("client add unknown", "There is no account unknown"),
    ("client list unknown", "There is no account unknown"),
    ("client revoke cli_nothing", "no such client"),
    ("credit add acme 0", "not 0"),
    ("credit add acme 1 --calls orders", "leave --calls out to add credits"),
    ("price set order 1", "There is no operation order: choose one of product_analysis, coupon"),
    ("credit add acme -1", "has fewer credits than 1"),
    ("credit add acme 99999999999999999999", "too large: send 1,000,000,000,000,000 at most"),
    ("credit add shut 5", "closed"),
    ("permission add shut product_analysis", "closed"),
    ("credit add acme 5 --calls nothing", "no operation nothing: --calls takes product_analysis"),
    ("permission add acme nothing", "no operation nothing: choose one of product_analysis"),
    ("permission add unknown product_analysis", "There is no account unknown"),
    ("permission revoke acme product_analysis", "has no permission for product_analysis"),
    ("operation close nothing", "no operation nothing: choose one of product_analysis"),
    ("price set nothing 5", "no operation nothing: choose one of product_analysis"),
    ("ledger show acme --unit tea", "has no tea: it has nothing yet"),
    ("ledger export unknown --out new.csv", "There is no account unknown"),
    ("ledger export acme --out ledger.db", "ledger.db exists already"),
    ("ledger export acme --out none/new.csv", "folder of none/new.csv does not exist"),
    ("import product-figures .", "cannot be read: Is a directory"),
    ("backup ledger.db", "ledger.db exists already"),
    ("backup none/copy.db", "folder of none/copy.db does not exist"),
    ("operator invite me", "The login must have 3 to 100 printable characters"),
    (f"operator invite {'x' * 101}", "The login must have 3 to 100 printable characters"),
    ("waybill label SF1 --out a.pdf --font other.db", "name a .ttf, .otf or .ttc file"),
    ("restore nothing.db", "There is no file nothing.db: name the one that `tollway backup` made"),
    ("restore ledger.db", "ledger.db is the database itself"),
    ("restore other.db", "ledger.db exists already: name another database, or add --replace"),
    ("restore other.db --database sqlite:///none/b.db", "folder of none/b.db does not exist"),
)


def test_a_wish_that_cannot_be_granted_says_why(
    tollway: Command, ledger_store: Store, workplace: Path
) -> None:
    tollway("account", "open", "acme")
    tollway("account", "open", "shut")
    tollway("account", "close", "shut", "--yes")
    (workplace / "other.db").write_bytes(b"")
    ledger_store.path.touch()
    before = sorted(workplace.iterdir())
    for line, part in WRONG_WISHES:
        if ledger_store.is_shared and line.startswith("restore"):
            continue  # Such a database is restored by its own tools.
        is_dumped = ledger_store.is_shared and line.startswith("backup")
        expected = "copied with its own tools: pg_dump" if is_dumped else part
        assert_one_sentence(tollway(*line.split()), 1, expected)
    assert_one_sentence(tollway("account", "close", "acme"), 2, "no terminal to ask", "--yes")
    assert sorted(workplace.iterdir()) == before


def test_a_rejected_record_that_is_not_there_says_where_they_are_listed(
    tollway: Command, ledger_store: Store
) -> None:
    answer = tollway("intake", "rejected", "replay", "r1")
    assert_one_sentence(answer, 1, "no rejected record r1: `tollway intake rejected list` shows")


@pytest.mark.sqlite
def test_a_demo_world_that_cannot_be_read_is_named(
    tollway: Command, ledger_store: Store, workplace: Path
) -> None:
    assert ledger_store.path.is_file()
    (workplace / "ledger.db.demo.json").write_text('{"base_url": "http://127')
    assert_one_sentence(tollway("operator", "link"), 1, "ledger.db.demo.json", "remove")


@pytest.mark.sqlite
def test_a_missing_database_is_named_and_not_made(process: Command, workplace: Path) -> None:
    answer = process("account", "list")
    assert_one_sentence(answer, 1, "ledger.db", "`tollway migrate`", "`tollway serve --demo`")
    assert list(workplace.iterdir()) == []
    (workplace / "data").mkdir()
    (workplace / "data" / "demo.db").touch()
    assert_one_sentence(process("account", "list"), 1, "`make run` is data/demo.db", "--database")


def test_a_database_that_cannot_be_used_is_named(tollway: Command, workplace: Path) -> None:
    (workplace / "text.db").write_text("this is not a database")
    for url, part in (
        ("sqlite:///text.db", "text.db is no database"),
        ("sqlite:///none/ledger.db", "There is no database file none/ledger.db"),
        ("mysql://localhost/ledger", "this one with mysql://"),
        ("host=127.0.0.1 password=hush", "this one with something else"),
        ("sqlite:///", "names no file"),
        ("sqlite:///:memory:", "is stored in a file: write sqlite:///FILE"),
    ):
        answer = tollway("account", "list", "--database", url)
        assert_one_sentence(answer, 1, part)
        assert "hush" not in answer.err
    migrated = tollway("migrate", "--database", "sqlite:///none/ledger.db")
    assert_one_sentence(migrated, 1, "folder of none/ledger.db does not exist")


@pytest.mark.parametrize("password", ["sec/ret", "sec@ret", "sec?ret", "sec#ret", "12/34", ""])
def test_a_url_that_cannot_be_understood_is_reported_without_its_password(
    tollway: Command, password: str
) -> None:
    # Without one, the password stands where a port is read.
    url = f"postgresql://me:{password}@127.0.0.1:1/ledger" if password else "postgresql://me:sec/b"
    answer = tollway("account", "list", "--database", url)
    assert_one_sentence(answer, 1, "URL cannot be read", "%2F for /")
    assert not password or password not in answer.err


def test_another_schema_is_refused(tollway: Command, ledger_store: Store, workplace: Path) -> None:
    (workplace / "empty.db").touch()
    answer = tollway("account", "list", "--database", "sqlite:///empty.db")
    assert_one_sentence(answer, 1, "run `tollway migrate`")
    ledger_store.run("UPDATE alembic_version SET version_num = '9999'")
    ledger_store.run("UPDATE schema_floor SET revision = '9999'")
    for command in ("account list", "migrate"):
        assert_one_sentence(tollway(*command.split()), 1, "newer Tollway")


def _run_on_file(path: Path, statement: str) -> list[tuple[object, ...]]:
    return apsw.Connection(str(path)).execute(statement).fetchall()


# The first is a name that Tollway uses too.
@pytest.mark.parametrize("theirs", ["account", "blog_post"])
def test_nothing_is_made_in_the_database_of_another_program(
    tollway: Command, workplace: Path, engine: Engine, theirs: str
) -> None:
    if engine == "postgresql":
        url = new_database(is_migrated=False)
        run, tables = partial(run_on, url), "tablename FROM pg_tables WHERE schemaname = 'public'"
    else:
        url = "sqlite:///other.db"
        run, tables = partial(_run_on_file, workplace / "other.db"), "name FROM sqlite_schema"
    run(f"CREATE TABLE {theirs} (id int)")
    # Others count their changes in the same way.
    run("CREATE TABLE alembic_version (version_num text)")
    run("INSERT INTO alembic_version VALUES ('ae1027a6acf4')")
    for command in ("migrate", "account list", "audit", "demo"):
        answer = tollway(*command.split(), "--database", url)
        assert_one_sentence(answer, 1, "has tables, such as ", "Name another one")
    assert {row[0] for row in run(f"SELECT {tables}")} == {theirs, "alembic_version"}


def test_a_part_that_the_database_lacks_is_named(tollway: Command, ledger_store: Store) -> None:
    ledger_store.run("DROP TABLE entry_day")
    answer = tollway("audit")
    assert_one_sentence(answer, 1, "entry_day", "of a development version")
    if not ledger_store.is_shared:
        answer = tollway("migrate")
        assert_one_sentence(answer, 1, "entry_day", "of a development version")


def test_a_database_that_another_program_holds_is_waited_for_and_then_reported(
    tollway: Command, ledger_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = partial(open_database, call_timeout_s=1)
    with ledger_store.held(), monkeypatch.context() as hurried:
        hurried.setattr("tollway.cli.command.open_database", impatient)
        assert_one_sentence(tollway("account", "open", "acme"), 1, "is busy", "Try again.")
    assert tollway("account", "open", "acme").status == 0


@pytest.mark.postgresql
def test_a_commit_whose_answer_is_lost_is_reported_as_one_that_may_have_been_made(
    tollway: Command, process: Command, ledger_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tollway("account", "open", "acme")
    way = LateAnswers(ledger_store.url)
    with monkeypatch.context() as elsewhere, ThreadPoolExecutor(1) as beside:
        elsewhere.setenv("TOLLWAY_DATABASE", way.url)
        with way.held("COMMIT") as answer:
            credited = beside.submit(process, "credit", "add", "acme", "5")
            answer.wait()
            answer.lose()
            printed = credited.result()
    way.close()
    assert_one_sentence(
        printed, 1, "lost during the commit", "not known whether", "`tollway ledger show`"
    )
    # As it was here: running it again credits twice.
    (entry,) = tollway("ledger", "show", "acme", "--json").json
    assert entry["amount"] == 5


def test_a_text_that_steers_terminals_is_shown_harmless(
    tollway: Command, ledger_store: Store
) -> None:
    tollway("account", "open", "acme")
    tollway("token", "issue", "acme", "--label", "\x1b[2Jgone\x07")
    tollway("credit", "add", "acme", "1", "--note", "\x1b]0;title\x07")
    shown = tollway("account", "show", "acme").out + tollway("ledger", "show", "acme").out
    assert "gone" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown


@pytest.mark.sqlite
def test_a_closed_output_is_no_error() -> None:
    command = f"exec {shlex.quote(sys.executable)} -m tollway --version >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.sqlite
def test_ctrl_c_ends_a_command_with_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(work: Coroutine[object, object, object]) -> None:
        work.close()
        raise KeyboardInterrupt

    monkeypatch.setattr("asyncio.run", interrupted)
    with pytest.raises(SystemExit) as end:
        main(["account", "list"])
    assert end.value.code == 130
    assert capsys.readouterr().err.strip() == "Stopped."
