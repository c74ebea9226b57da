"""Calls a handler as the pipeline does."""

from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def result_of(found: Awaitable[T] | T) -> T:
    """What a handler returned, waited for if need be."""
    return await found if isinstance(found, Awaitable) else found
