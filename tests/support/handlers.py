"""Calls a handler as the pipeline does."""

from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def result_of(found: Awaitable[T] | T) -> T:
    """What a handler returned, waited for if need be."""
    return await found if isinstance(found, Awaitable) else found


async def may_go_on(_call: object) -> None:
    """Lets every file be sent to its end."""
