"""The versions by which a running gateway notices that its caches are out of date.

A transaction that changes a kind of data gives it another version. On every call the gateway checks
whether anything but charges was committed, and if so reads the versions: so it never answers from a
cache that a change made out of date. `directory` is the version of what is cached of callers:
accounts, tokens, permissions, prices, owners and their grants. Each change of it says which account
it is about, so that what is cached of the others stays valid.

A version is a random number, which never comes again. A counter would: after a failover that lost
its last change, the next change would bring it to the value that caches were filled under.

A failover can also lose what changed no version, such as a new token, or was looked up just before
its version was read. So `directory` also depends on when the server was started.
"""

import secrets
from typing import Any

from sqlalchemy import Select, String, bindparam, cast, func, literal_column, select

from tollway.store.concurrency import NextFlights
from tollway.store.database import Database, Transaction
from tollway.store.query import Query
from tollway.store.schema.database import version

# In microseconds. A standby that is promoted was started at another moment than the primary.
_STARTED_US = "CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000000 AS bigint)"
SERVER_DIRECTORY = f"(directory + {_STARTED_US})"


def _read(started_us: str) -> Select[Any]:
    columns = (version.c.directory, version.c.figures, version.c.material, version.c.latest_changes)
    return select(literal_column(started_us), *columns)


_READ = Query(lambda: _read("0"), lambda: _read(_STARTED_US))
_REWRITE = Query(lambda: version.update().values(id=version.c.id))
# A line for each change, the latest first: the version, the one before it, the account or nothing.
_LATEST_MAX = 2000
_line = (
    cast(bindparam("changed"), String)
    + " "
    + cast(version.c.directory, String)
    + bindparam("about", type_=String)
)
_CHANGE_DIRECTORY = Query(
    lambda: version.update().values(
        directory=bindparam("changed"),
        latest_changes=func.substr(_line + version.c.latest_changes, 1, _LATEST_MAX),
    )
)
_CHANGE_FIGURES = Query(lambda: version.update().values(figures=bindparam("changed")))
_CHANGE_MATERIAL = Query(lambda: version.update().values(material=bindparam("changed")))


def new_version() -> int:
    return secrets.randbits(62)


async def write_nothing_new(transaction: Transaction) -> None:
    """Writes the stored values again, durably: fails if a real change would fail, except if a
    server only lacks the space for new rows."""
    await transaction.execute(_REWRITE)


async def directory_changed(transaction: Transaction, account_id: str = "") -> None:
    """Called in every transaction that changes who may do what, or who has how much: of one
    account, or of any."""
    transaction.changes_versions = True
    await transaction.execute(_CHANGE_DIRECTORY, changed=new_version(), about=f" {account_id}\n")


async def figures_changed(transaction: Transaction) -> None:
    """Called in every transaction that changes a product or its figures."""
    transaction.changes_versions = True
    await transaction.execute(_CHANGE_FIGURES, changed=new_version())


async def material_changed(transaction: Transaction) -> None:
    """Called in every transaction that changes promotion material."""
    transaction.changes_versions = True
    await transaction.execute(_CHANGE_MATERIAL, changed=new_version())


def changed_accounts(latest: str, since: int, now: int) -> frozenset[str] | None:
    """The accounts that the changes from one version of the directory to another are about; None if
    that is not known, or any account may be concerned."""
    found: set[str] = set()
    version_now = str(now)
    # What follows the last line end was cut off.
    for line in latest.split("\n")[:-1]:
        version, before, account_id = line.split(" ", 2)
        if version != version_now or not account_id:
            return None
        found.add(account_id)
        if before == str(since):
            return frozenset(found)
        version_now = before
    return None


class Versions:
    """The versions, and whether they can have changed since they were read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # In a flood, calls share their reads; an embedded database reads at once.
        self._read = NextFlights(self._read_row) if database.is_shared else self._read_row
        self._mark: object = None
        self._asked = 0
        # The last read that may have missed a change.
        self._outdated = 0
        # The number of the read that the known values come from.
        self.reading = 0
        self.directory = -1
        self.figures = -1
        self.material = -1
        self._latest_changes = ""
        self._started_us = 0

    def is_fresh(self) -> bool:
        return self._database.record_mark() == self._mark

    def outdate(self) -> None:
        """Something was committed that the mark may not show yet: only a read that is asked for
        from now on makes the versions fresh."""
        self._mark = None
        self._outdated = self._asked

    async def refresh(self) -> None:
        await self._read("")

    def accounts_changed_since(self, directory: int) -> frozenset[str] | None:
        """The accounts that changed since a version of the directory; None if it may be any."""
        since, now = directory - self._started_us, self.directory - self._started_us
        return changed_accounts(self._latest_changes, since, now)

    async def _read_row(self, _: str) -> None:
        # Marked before the read: a commit in between is then noticed the next time.
        mark = self._database.record_mark()
        self._asked += 1
        reading = self._asked
        row = await self._database.fetch_one(_READ)
        assert row is not None
        # A read that a later one overtook would bring back older values.
        if reading > self.reading:
            self._started_us, directory, self.figures, self.material, self._latest_changes = row
            self.directory = directory + self._started_us
            self.reading = reading
            self._mark = mark if reading > self._outdated else None
