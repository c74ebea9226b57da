"""Loading a file into a database, and looking at what came of it."""

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.stores import Store
from tollway.intake.files import read_records
from tollway.intake.loading import LoadResult, Reject, checked_chunks, load
from tollway.operations.product_analysis.storage import FigureLoader

TABLES = ("product", "product_day", "product_figure", "product_day_parts")
Rows = list[tuple[object, ...]]


class Loaded(NamedTuple):
    result: LoadResult
    rejects: list[Reject]

    @property
    def lines(self) -> list[int]:
        return [reject.line for reject in self.rejects]


class Figures:
    """A database to load files into, without figures."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self._folder = folder
        for table in TABLES:
            store.run(f"DELETE FROM {table}")

    def load(self, path: Path) -> Loaded:
        rejects: list[Reject] = []
        loader = FigureLoader()
        chunks = checked_chunks(loader, read_records(path))
        result = self.store.do(
            lambda database: load(database, loader, chunks, rejects.append, lambda *_: None)
        )
        return Loaded(result, rejects)

    def load_bytes(self, name: str, content: bytes) -> Loaded:
        path = self._folder / name
        path.write_bytes(content)
        return self.load(path)

    def rows(self, table: str) -> Rows:
        return self.store.run(f"SELECT * FROM {table} ORDER BY 1, 2, 3")

    def everything(self) -> dict[str, Rows]:
        return {table: self.rows(table) for table in (*TABLES, "version")}


@pytest.fixture(scope="package")
def migrated(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Store:
    return Store(tmp_path_factory.mktemp("intake") / "figures.db")


@pytest.fixture
def figures(migrated: Store, tmp_path: Path) -> Figures:
    return Figures(migrated, tmp_path)
