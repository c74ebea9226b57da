"""One page of a list that is read whole, because it is short as a rule: it stays usable if it is
long."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from tollway.web.area import PAGE_ROWS, address
from tollway.web.wording import plain_number

T = TypeVar("T")
# The row that a page begins with, in its address.
BEGIN = "row"


class ListPart(NamedTuple, Generic[T]):
    """Some rows of a list, and the addresses of the first and the next page, where it has them."""

    rows: Sequence[T]
    first: str
    next: str


def list_part(
    found: Sequence[T],
    begin: str,
    path: str,
    kept: Mapping[str, str] = MappingProxyType({}),
    most: int = PAGE_ROWS,
) -> ListPart[T]:
    """The page that begins with this row, or the first; `kept` is what else its address has."""
    start = plain_number(begin, 9) or 0
    end = start + most
    return ListPart(
        found[start:end],
        address(path, **kept) if start else "",
        address(path, **kept, **{BEGIN: str(end)}) if end < len(found) else "",
    )
