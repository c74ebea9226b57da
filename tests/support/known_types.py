"""What asyncpg asks the server about arrays, known beforehand.

Every new connection asks for each kind of array that it meets, which takes the server longer than
all else that a new connection takes; tests make thousands of them. The numbers of these types are
the same on every server.
"""

from types import SimpleNamespace
from typing import Any

import asyncpg

ask = asyncpg.Connection._introspect_types
# The number of the array and of its elements, and the names of both.
ARRAYS = {
    1001: (17, "_bytea", "bytea"),
    1007: (23, "_int4", "integer"),
    1015: (1043, "_varchar", "character varying"),
    1016: (20, "_int8", "bigint"),
}
# What is not prepared here is not to be prepared again.
_STATEMENT = SimpleNamespace(name="none")


def row_of(array: int) -> dict[str, Any]:
    """The row that the server returns."""
    element, name, element_name = ARRAYS[array]
    nothing = ("basetype", "range_subtype", "attrtypoids", "attrnames", "basetype_name")
    return {
        **dict.fromkeys((*nothing, "range_subtype_name")),
        "oid": array,
        "ns": "pg_catalog",
        "name": name,
        "kind": b"b",
        "elemtype": element,
        "elemdelim": b",",
        "depth": 0,
        "elemtype_name": element_name,
    }


def know_types() -> None:
    """From now on in this process, and in its forks."""

    async def know(self: Any, oids: Any, timeout: float) -> Any:  # noqa: ASYNC109
        if not ARRAYS.keys() >= set(oids):
            return await ask(self, oids, timeout)
        return [row_of(oid) for oid in oids], _STATEMENT

    asyncpg.Connection._introspect_types = know
