"""From the driver's errors to the store's own."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from tollway.store.database import (
    DuplicateKeyError,
    StoreBusyError,
    StoreError,
    StoreLockedError,
    StoreUnavailableError,
)


class ConflictError(StoreError):
    """A conflict with another transaction: retry."""


class DuplicateKeyConflictError(ConflictError, DuplicateKeyError):
    """The key of a new row exists already: another transaction stored it meanwhile, or long ago."""


class ServerFullError(StoreUnavailableError):
    """The server has too many connections, and lets no more in."""


class StatementCancelledError(StoreBusyError):
    """A statement took too long, and was cancelled."""


class StatementUndoneError(StoreUnavailableError):
    """The server had no space, no memory or no sound file for a statement. It has undone it, and
    the connection is as good as before."""


class ServerDiskFullError(StatementUndoneError):
    """The server had no space for a statement."""


class RightsError(StoreError):
    """The server does not let this role do what was asked."""


_RIVAL = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    # The schema was changed under a prepared statement; a new transaction prepares it again.
    asyncpg.InvalidCachedStatementError,
)
_SHORT_OR_BROKEN = (
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
    asyncpg.DataCorruptedError,
    asyncpg.IndexCorruptedError,
)
_UNAVAILABLE = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InternalClientError,
)


@contextmanager
def our_errors() -> Iterator[None]:
    """Turns errors that are not the program's fault into the store's own."""
    try:
        yield
    except asyncpg.UniqueViolationError as error:
        raise DuplicateKeyConflictError(error_text(error)) from error
    except _RIVAL as error:
        raise ConflictError(error_text(error)) from error
    except asyncpg.CheckViolationError as error:
        if error.constraint_name is not None:
            raise
        # Not a check constraint of ours, but the bounds of a partition: the month of the row was
        # created after the row had been routed to the rest.
        raise ConflictError(error_text(error)) from error
    except asyncpg.LockNotAvailableError as error:
        raise StoreLockedError(error_text(error)) from error
    except asyncpg.QueryCanceledError as error:
        raise StatementCancelledError(error_text(error)) from error
    except asyncpg.TooManyConnectionsError as error:
        raise StoreBusyError(error_text(error)) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise RightsError(
            f"The role in the database's URL has too few rights ({error_text(error)}): it must own "
            "the tables, and be allowed to make more of them in their schema."
        ) from error
    except _SHORT_OR_BROKEN as error:
        # Anything worse than ERROR ends the connection too, and leaves the outcome unknown.
        if error.severity_en != "ERROR":
            raise StoreUnavailableError(error_text(error)) from error
        is_full = isinstance(error, asyncpg.DiskFullError)
        kind = ServerDiskFullError if is_full else StatementUndoneError
        raise kind(error_text(error)) from error
    except asyncpg.DataError:
        raise
    except (*_UNAVAILABLE, asyncpg.InterfaceError) as error:
        raise StoreUnavailableError(error_text(error)) from error


def error_text(error: BaseException) -> str:
    """What the driver says, in one line."""
    if str(error):
        return str(error).splitlines()[0]
    return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
