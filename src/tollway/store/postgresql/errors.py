"""Saying in our words what went wrong at the server, or on the way to it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from tollway.store.database import StoreBusyError, StoreError, StoreUnavailableError


class RivalError(StoreError):
    """Another transaction did the same, or came in the way, at the same moment: try once more."""


_RIVAL = (
    asyncpg.UniqueViolationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    # The schema was changed under a prepared statement; a new transaction prepares it again.
    asyncpg.InvalidCachedStatementError,
)
_BUSY = (
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    asyncpg.TooManyConnectionsError,
)
_UNAVAILABLE = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
    asyncpg.DataCorruptedError,
    asyncpg.IndexCorruptedError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InternalClientError,
)


@contextmanager
def our_errors() -> Iterator[None]:
    """Turns the driver's errors that are the world's fault into the store's own."""
    try:
        yield
    except _RIVAL as error:
        raise RivalError(_told(error)) from error
    except _BUSY as error:
        raise StoreBusyError(_told(error)) from error
    except asyncpg.DataError:
        raise
    except (*_UNAVAILABLE, asyncpg.InterfaceError) as error:
        raise StoreUnavailableError(_told(error)) from error


def _told(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
