"""The two databases that `database_cost.py` measures, SQLite and PostgreSQL, and what they count.

The PostgreSQL is the one of the tests, with durable commits.
"""

import asyncio
import os
import shutil
from datetime import date
from pathlib import Path
from typing import NamedTuple

import apsw

from tests.support.postgresql import Server, run_on
from tollway.ledger.accounts import open_account
from tollway.ledger.entries import top_up
from tollway.ledger.permissions import Permission, add_permission
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import issue_token
from tollway.operations.product_analysis.demo import fill_figures
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.store.database import Database
from tollway.store.migrate import migrate
from tollway.store.open import open_database
from tollway.telemetry.metrics import Metrics

_TICKS_A_S = os.sysconf("SC_CLK_TCK")
_RATE = 100_000
# As in use: commits are on disk.
DURABLE = {
    "fsync": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    # No checkpoint comes in between: its cost is measured apart.
    "checkpoint_timeout": "1h",
    "max_wal_size": "16GB",
}
_LOGGED = {
    "logging_collector": "on",
    "log_filename": "statements.log",
    "log_min_messages": "log",
}


class Counts(NamedTuple):
    """What a database has counted so far."""

    entries: int
    wal_bytes: int
    fsyncs: int
    full_pages: int
    cpu_s: float


class Sizes(NamedTuple):
    """The bytes of the table of entries, and of its indexes."""

    table: int
    indexes: int


class SqliteBench:
    """A file. Its log and its processor time are the gateway's own."""

    title = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._path = folder / "tollway.db"
        self.settings = {"TOLLWAY_DATABASE": f"sqlite:///{self._path}"}

    def counts(self) -> Counts:
        return Counts(self._ask("SELECT sum(entries) FROM balance"), 0, 0, 0, 0.0)

    def sizes(self) -> Sizes:
        """The rows of the table are stored in its key."""
        size = "SELECT total(pgsize) FROM dbstat WHERE name = '{}'"
        return Sizes(self._ask(size.format("entry")), self._ask(size.format("entry_request")))

    def count_statements(self, *, is_on: bool) -> None:
        """Nothing between the gateway and the file counts them."""

    def statements(self) -> int:
        return 0

    def tidy(self) -> None:
        """Nothing to do here."""

    def remove(self) -> None:
        """It is deleted with its folder."""

    def _ask(self, query: str) -> int:
        connection = apsw.Connection(str(self._path))
        try:
            return int(connection.execute(query).fetchall()[0][0])
        finally:
            connection.close()


class PostgresqlBench:
    """A server of its own. Its log has every statement while they are counted."""

    title = "PostgreSQL"

    def __init__(self, folder: Path) -> None:
        self._log = folder / "postgresql"
        self._log.mkdir()
        if os.geteuid() == 0:
            folder.chmod(0o755)
            shutil.chown(self._log, "nobody")
        self._server = Server(log_directory=str(self._log), **DURABLE, **_LOGGED)
        self._url = self._server.url
        self._main = main_process(self._url)
        self.settings = {
            "TOLLWAY_DATABASE": self._url,
            "TOLLWAY_KEY_FILE": str(folder / "keys"),
            "TOLLWAY_SECRET_FILE": str(folder / "secret"),
        }

    def counts(self) -> Counts:
        return Counts(
            self._ask("SELECT sum(entries) FROM balance"),
            self._ask("SELECT pg_current_wal_insert_lsn() - '0/0'"),
            self._ask("SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'"),
            self._ask("SELECT wal_fpi FROM pg_stat_wal"),
            spent_by(self._main).cpu_s,
        )

    def sizes(self) -> Sizes:
        months = "FROM pg_partition_tree('entry') WHERE isleaf"
        return Sizes(
            self._ask(f"SELECT sum(pg_table_size(relid))::bigint {months}"),
            self._ask(f"SELECT sum(pg_indexes_size(relid))::bigint {months}"),
        )

    def count_statements(self, *, is_on: bool) -> None:
        level = "all" if is_on else "none"
        run_on(self._url, f"ALTER SYSTEM SET log_statement = '{level}'")
        run_on(self._url, "SELECT pg_reload_conf()")

    def statements(self) -> int:
        log = (self._log / "statements.log").read_text(encoding="utf-8", errors="replace")
        return log.count("LOG:  execute ") + log.count("LOG:  statement: ")

    def tidy(self) -> None:
        """Does now what loading leaves for later: rows are marked when they are first read."""
        run_on(self._url, "VACUUM")
        run_on(self._url, "CHECKPOINT")

    def remove(self) -> None:
        self._server.remove()

    def _ask(self, query: str) -> int:
        return int(str(run_on(self._url, query)[0][0]))


def main_process(url: str) -> int:
    """The process that has started all others of a PostgreSQL."""
    data = Path(str(run_on(url, "SHOW data_directory")[0][0]))
    return int((data / "postmaster.pid").read_text(encoding="utf-8").split()[0])


class Spent(NamedTuple):
    """Processor time, and bytes sent to disk."""

    cpu_s: float
    written_bytes: int


def spent_by(main: int) -> Spent:
    """What a process and its children have spent."""
    task = Path(f"/proc/{main}/task/{main}/children")
    cpu_s, written = 0.0, 0
    for pid in (main, *map(int, task.read_text().split())):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            io = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
        except (FileNotFoundError, ProcessLookupError):
            continue
        # Of children that have ended, only the time is left.
        ended = sum(map(int, stat[13:15])) if pid == main else 0
        cpu_s += (sum(map(int, stat[11:13])) + ended) / _TICKS_A_S
        written += int(io["write_bytes"])
    return Spent(cpu_s, written)


def prepare(url: str, accounts: int, last: date) -> list[str]:
    """Figures of a year, and accounts that may call as fast as they can; returns their tokens."""

    async def work() -> list[str]:
        database = open_database(url, Metrics())
        await migrate(database)
        await fill_figures(database, products=24, days=365, last=last)
        tokens = await open_accounts(database, accounts)
        await database.close()
        return tokens

    return asyncio.run(work())


async def open_accounts(database: Database, accounts: int) -> list[str]:
    """Accounts that may call product analysis as fast as they can; returns their tokens."""
    tokens, runtime = [], Runtime()
    for number in range(accounts):
        account = await open_account(database, runtime, f"account {number}")
        await add_permission(database, account.id, Permission(PRODUCT_ANALYSIS.name, None, _RATE))
        await top_up(database, runtime, account.id, PRODUCT_ANALYSIS.balance_unit, 10**9)
        tokens.append((await issue_token(database, runtime, account.id, kind="live")).text)
    return tokens
