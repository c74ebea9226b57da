"""Fixtures for tests that are coroutine functions.

    async def test_an_account_is_found(database: Database) -> None: ...

The value of such a fixture can only be made in the event loop that the test runs in, such as an
open database. So the fixture is an `InLoop`, and the test gets the value itself.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class InLoop(NamedTuple, Generic[T]):
    """Makes the value in a new event loop, and runs a test with it there."""

    run: Callable[[Callable[[T], Awaitable[None]]], None]
