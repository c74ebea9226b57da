"""A database that tests damage one after the other: what each needs of it, undamaged."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.stores import Store

_CHANGED = re.compile(r"\b(?:UPDATE|DELETE FROM|INSERT INTO) (\w+)")


class Damaged:
    """Takes any row; it is corrected after each test.

    A copy for each takes a server several times as long: it knows nothing of it, and plans every
    statement of an audit again. A file is copied, which takes nothing.
    """

    def __init__(self, store: Store, sabotages: Iterable[str]) -> None:
        self._store = store
        store.drop_checks()
        if store.is_shared:
            tables = sorted({name for each in sabotages for name in _CHANGED.findall(each)})
            kept = (f"CREATE TABLE kept.{name} AS TABLE {name}" for name in tables)
            store.run_all("CREATE SCHEMA kept", *kept)

    @contextmanager
    def before(self, sabotage: str, workplace: Path) -> Iterator[Store]:
        """As the database of the commands of one test, which damages it in this way."""
        # What is dropped is not put back.
        is_copied = not self._store.is_shared or "DROP " in sabotage
        store = self._store.copied_to(workplace / "ledger.db") if is_copied else self._store
        with pytest.MonkeyPatch.context() as patch:
            for name, value in store.settings.items():
                patch.setenv(name, value)
            try:
                yield store
            finally:
                if not is_copied:
                    self._repair(set(_CHANGED.findall(sabotage)))

    def _repair(self, tables: Iterable[str]) -> None:
        for name in tables:
            self._store.run_all(f"DELETE FROM {name}", f"INSERT INTO {name} TABLE kept.{name}")
