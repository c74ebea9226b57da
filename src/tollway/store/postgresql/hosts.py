"""From a PostgreSQL URL to a connection: tries the hosts in order until one can be used.

While no host can be used, one attempt runs at a time, and other tasks that want a connection fail
at once: so calls are refused quickly during an outage, even if the hosts drop every packet.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import TypeAlias
from urllib.parse import parse_qs

import asyncpg

from tollway.store.database import StoreError, StoreUnavailableError
from tollway.store.postgresql.errors import ServerFullError, error_text, our_errors
from tollway.store.postgresql.poolers import REFUSES_SETTINGS, refuse_pooler
from tollway.store.postgresql.urls import UNREADABLE, host_of, parts_of, urls_by_host

# A host that drops packets must leave time for the next one while a call waits.
_HOST_TIMEOUT_S = 2.0
# A command may wait longer than a call, because a busy machine may take longer to answer.
_PATIENT_HOST_TIMEOUT_S = 10.0
_STATEMENTS_KEPT = 256
# How long a host counts as silent, or as out of connections.
_VERDICT_S = 3.0
# How soon after a failure the hosts are tried again.
_AGAIN_AFTER_S = 0.1
# How long a command waits for what another transaction has locked.
_LOCK_TIMEOUT_S = 10.0
_COMMAND_IDLE_S = 600.0
# Limits that a role or a server may set, with the first version that knows each: an older server
# would refuse a connection that names it. Our own limits are in `_server_settings`.
_NEWER_LIMITS = ((14, "idle_session_timeout"), (17, "transaction_timeout"))

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class Hosts:
    """The servers that a URL names."""

    def __init__(self, url: str, call_timeout_s: float | None, session: str) -> None:
        self._urls = urls_by_host(url)
        self._settings = _server_settings(call_timeout_s)
        is_of_calls = call_timeout_s is not None
        self._host_timeout_s = _HOST_TIMEOUT_S if is_of_calls else _PATIENT_HOST_TIMEOUT_S
        # The server cancels a slow statement itself; this limit is for one that does not answer.
        self._command_timeout_s = None if call_timeout_s is None else call_timeout_s + 1
        is_chosen = "target_session_attrs" in parse_qs(parts_of(url).query)
        self._session = None if is_chosen else session
        # Raises for a connection that cannot be used.
        self.check: Callable[[Connection], Awaitable[None]] | None = None
        # Called on a change to another host, with whether the previous one is silent: then its
        # running queries need not be waited for.
        self.on_move: Callable[[bool], None] = _do_nothing
        self._silent_since_s = float("-inf")
        # How many connections servers refused because they have too many; when the last time was.
        self.refused = 0
        self._refused_at_s = float("-inf")
        # A failure counts only if no other attempt has succeeded since it began.
        self._successes = 0
        self._good = 0
        self._problem: StoreUnavailableError | None = None
        self._again_at_s = 0.0
        # The hosts that passed `refuse_pooler`.
        self._direct: set[int] = set()
        self._is_probing = False

    @property
    def timeout_s(self) -> float:
        """How long it takes at most to try every host."""
        return self._host_timeout_s * len(self._urls)

    @property
    def is_silent(self) -> bool:
        """Whether the last good host, and every other one, just failed to answer in time."""
        return monotonic() - self._silent_since_s < _VERDICT_S

    @property
    def is_crowded(self) -> bool:
        """Whether a server has just refused a connection because it has too many."""
        return monotonic() - self._refused_at_s < _VERDICT_S

    async def connect(self) -> Connection:
        """A connection to the last good host, or else to the next good one."""
        if self._problem is None:
            return await self._try_all()
        if self._is_probing or monotonic() < self._again_at_s:
            raise type(self._problem)(str(self._problem))
        self._is_probing = True
        try:
            return await self._try_all()
        finally:
            self._is_probing = False

    async def _try_all(self) -> Connection:
        problems: list[str] = []
        is_silent, is_full, good, began = False, False, self._good, self._successes
        for attempt in range(len(self._urls)):
            index = (good + attempt) % len(self._urls)
            try:
                made = await self._try(index)
            except StoreError as error:
                if isinstance(error.__cause__, asyncpg.TooManyConnectionsError):
                    self.refused, self._refused_at_s = self.refused + 1, monotonic()
                    is_full = True
                is_silent |= attempt == 0 and isinstance(error.__cause__, TimeoutError)
                problems.append(f"{host_of(self._urls[index])}: {self._reason(error)}")
                continue
            except ValueError:
                raise StoreUnavailableError(UNREADABLE) from None
            try:
                await self._check(made)
            except StoreError as error:
                problems.append(f"{host_of(self._urls[index])}: {error}")
                continue
            self._found(index, is_first=self._good == good, is_silent=is_silent)
            return made
        problem = (ServerFullError if is_full else StoreUnavailableError)("; ".join(problems))
        if began == self._successes:
            self._problem, self._again_at_s = problem, monotonic() + _AGAIN_AFTER_S
            if is_silent:
                self._silent_since_s = monotonic()
        raise problem

    def _found(self, index: int, *, is_first: bool, is_silent: bool) -> None:
        is_move = is_first and index != self._good
        self._good, self._problem, self._silent_since_s = index, None, float("-inf")
        self._successes += 1
        # Only for the first task that found it: the others already connect there.
        if is_move:
            self.on_move(is_silent)

    async def _check(self, made: Connection) -> None:
        if self.check is not None:
            try:
                with our_errors():
                    async with asyncio.timeout(self._host_timeout_s):
                        await self.check(made)
            except BaseException:
                made.terminate()
                raise

    def _reason(self, error: StoreError) -> str:
        """Why a host cannot be used."""
        reason = str(error)
        match error.__cause__:
            case TimeoutError():
                reason = f"no answer within {self._host_timeout_s:.0f} s"
            case ConnectionRefusedError():
                reason = "connection refused"
            case FileNotFoundError() | PermissionError() as cause:
                # The driver does not say which.
                files = "its socket, or a file for TLS (sslrootcert in the URL, ~/.postgresql)"
                reason = f"{cause.strerror}: {files}"
            case asyncpg.TargetServerAttributeNotMatched() if self._session == "read-write":
                reason = "it takes no writes"
            case asyncpg.TargetServerAttributeNotMatched():
                reason = "it is not what target_session_attrs asks for"
            case asyncpg.InsufficientPrivilegeError() as cause:
                reason = error_text(cause)
            case asyncpg.ProtocolViolationError() if "startup parameter" in reason:
                reason = REFUSES_SETTINGS.format(problem=reason)
        return reason

    async def _try(self, index: int) -> Connection:
        made = await self._open(index)
        try:
            with our_errors():
                async with asyncio.timeout(self._host_timeout_s):
                    if index not in self._direct:
                        await refuse_pooler(
                            made,
                            partial(self._open, index),
                            self._settings,
                            self._host_timeout_s / 2,
                        )
                    with _connecting():
                        await _lift_limits(made)
        except BaseException:
            made.terminate()
            raise
        self._direct.add(index)
        return made

    async def _open(self, index: int) -> Connection:
        with _connecting():
            return await asyncpg.connect(
                self._urls[index],
                timeout=self._host_timeout_s,
                command_timeout=self._command_timeout_s,
                statement_cache_size=_STATEMENTS_KEPT,
                max_cached_statement_lifetime=0,
                target_session_attrs=self._session,  # type: ignore[arg-type]
                server_settings=self._settings,
            )


async def _lift_limits(made: Connection) -> None:
    version = made.get_server_version().major
    lifted = [f"SET {name} = 0" for since, name in _NEWER_LIMITS if version >= since]
    if lifted:
        await made.execute("; ".join(lifted))


@contextmanager
def _connecting() -> Iterator[None]:
    """If a server refuses a connection, for whatever reason, it cannot be used."""
    try:
        with our_errors():
            yield
    except (
        asyncpg.UndefinedObjectError,
        asyncpg.InvalidParameterValueError,
        asyncpg.CantChangeRuntimeParamError,
    ) as error:
        # The driver passes unknown parameters of a URL on to the server as settings.
        raise StoreUnavailableError(f"{error_text(error)}, which the URL sets") from error
    except asyncpg.PostgresError as error:
        raise StoreUnavailableError(error_text(error)) from error


def _do_nothing(_: bool) -> None:
    pass


def _server_settings(call_timeout_s: float | None) -> dict[str, str]:
    settings = {
        "application_name": "tollway",
        "default_transaction_isolation": "read committed",
        # Compiling pays for long statements only, and ours are short.
        "jit": "off",
        # Plans are made once per connection. For divided tables, planning every call would take
        # longer than running it.
        "plan_cache_mode": "force_generic_plan",
        # Whatever the server's default: an acknowledged commit is on disk, and on the synchronous
        # standby if there is one. If the wait for the standby was cut short, a warning says so.
        "synchronous_commit": "on",
        "client_min_messages": "warning",
        "lock_timeout": _milliseconds(call_timeout_s or _LOCK_TIMEOUT_S),
        # A command has no time limit, whatever the server's default.
        "statement_timeout": _milliseconds(call_timeout_s),
        # A node that lost its connection must not hold its locks, nor a command that was stopped.
        "idle_in_transaction_session_timeout": _milliseconds(call_timeout_s or _COMMAND_IDLE_S),
    }
    if call_timeout_s is not None:
        # A plan made while a table is empty stays in use when the table has grown. Commands leave
        # the choice to the planner, because they read whole tables.
        settings["enable_seqscan"] = "off"
    return settings


def _milliseconds(seconds: float | None) -> str:
    return "0" if seconds is None else str(max(1, round(seconds * 1000)))
