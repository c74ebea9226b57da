"""Results of long reads that several pages in a row may share, for some seconds."""

from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

from tollway.store.database import Row

_KEPT_S = 15.0


class Remembered:
    """Rows by what they are of. No rows are not remembered: the first should appear at once."""

    def __init__(self) -> None:
        self._found: dict[object, tuple[float, Sequence[Row]]] = {}

    async def rows(
        self, key: object, read: Callable[[], Awaitable[Sequence[Row]]]
    ) -> Sequence[Row]:
        until_s, rows = self._found.get(key, (0.0, ()))
        now_s = monotonic()
        if now_s >= until_s:
            rows = await read()
            self._found = {k: kept for k, kept in self._found.items() if kept[0] > now_s}
            if rows:
                self._found[key] = (now_s + _KEPT_S, rows)
        return rows
