"""What was changed beside a running gateway, as its next calls see it."""

from collections.abc import Callable
from typing import TypeVar

from tests.support.remote import eventually
from tests.support.stores import Store

T = TypeVar("T")


def assert_seen(store: Store, look: Callable[[], T], expected: T) -> None:
    """That a call sees the change which was just made to the store.

    The very next call sees what is committed to a file. A gateway is notified of a change to a
    shared database on another connection, maybe a moment after the commit.
    """
    if store.is_shared:
        eventually(look, lambda seen: seen == expected)
    else:
        assert (seen := look()) == expected, seen
