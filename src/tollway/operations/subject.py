"""A subject: one operation together with all that belongs to it.

The catalogue lists the built-in subjects, and those that installed packages bring by the entry
point `tollway.operations`. All code that loops over operations takes them from there.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import date
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy import Table

from tollway.carriers.connectors.remote_carriers import Remotes
from tollway.carriers.pools import TakeNumbers, take_numbers
from tollway.carriers.vault import Vault
from tollway.contract.operation import CallInfo, Operation
from tollway.intake.loading import RecordKind
from tollway.ledger.charges import Act
from tollway.ledger.runtime import Runtime
from tollway.operations.demo_data import DemoPart
from tollway.operations.remaking import ReadyRecords, Remade
from tollway.settings import Settings
from tollway.store.cache_versions import Versions
from tollway.store.database import Database, Transaction
from tollway.store.months import Month


class Counted(NamedTuple):
    """A payload, and how many records of its owner it has, so that nothing has to count them."""

    data: bytes
    records: int


class Priced(NamedTuple):
    """A payload that costs the price of a call so many times, and an act to run with the charge."""

    times: int
    data: bytes
    act: Act | None = None


class Stream(NamedTuple):
    """A file that is sent in pieces. `end` is called when no more of it is sent."""

    content_type: str
    pieces: AsyncGenerator[bytes, None]
    end: Callable[[], None] = lambda: None


# A handler takes the decoded request and returns the payload, encoded for the envelope.
# If its work must commit together with the charge, it returns an act instead, which returns the
# payload from within that transaction.
Result = bytes | Act | Counted | Priced | Stream
# A handler that never waits may return the result directly.
Handler = Callable[[Any, CallInfo], Awaitable[Result] | Result]
# Removes at most so many old rows in one transaction, and returns how many it removed.
Removal = Callable[[Transaction, int], Awaitable[int]]


class Services(msgspec.Struct, frozen=True):
    """What a handler can use, for live data or for the sandbox."""

    database: Database
    # For reads that may be a moment old: a replica, where the gateway has one.
    reading: Database
    versions: Versions
    vault: Vault
    remotes: Remotes
    runtime: Runtime
    zone: ZoneInfo
    today: Callable[[], date]
    public_address: str
    # Takes them from the pools; the sandbox draws its own.
    take_numbers: TakeNumbers = take_numbers


class Retained(msgspec.Struct, frozen=True):
    """Rows that are dropped once they are older than a setting allows.

    An embedded database removes them in small pieces. A shared one drops whole months;
    `forget_month` first removes the counts of a month's rows and returns how many there are, or
    None while the month has to stay.
    """

    kind: str
    keep_days: Callable[[Settings], int]
    table: Table
    removals: Callable[[Database, int], Awaitable[Sequence[Removal]]]
    count_old: Callable[[Database, int], Awaitable[int]]
    forget_month: Callable[[Transaction, Month], Awaitable[int | None]]


class MoreCall(msgspec.Struct, frozen=True):
    """Another call on the data of an operation, paid like that operation, and its handler. A batch
    needs no handler: each of its requests is a call of the operation."""

    operation: Operation
    make_handler: Callable[[Services], Handler] | None = None


class Subject(msgspec.Struct, frozen=True):
    """One operation, its handler, its records, how they are made ready, how long they are kept,
    its demo data, and more calls on them. `remake` is for ready data of several records."""

    operation: Operation
    make_handler: Callable[[Services], Handler]
    records: RecordKind | None = None
    ready: ReadyRecords | None = None
    remake: Callable[[Database], Awaitable[Remade]] | None = None
    retained: Retained | None = None
    demo: DemoPart | None = None
    more_calls: tuple[MoreCall, ...] = ()
