"""The write-ahead log of the embedded engine stays short while searches never pause."""

import asyncio
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from sqlalchemy import bindparam, text

from tests.support.stores import Store
from tollway.operations.product_analysis.schema import product
from tollway.store.open import OpenDatabase
from tollway.store.query import Query
from tollway.store.sqlite import connection
from tollway.store.sqlite import database as engine

pytestmark = pytest.mark.sqlite

_MIB = 1024 * 1024
_ADD = Query(
    product.insert().values(
        product_id=bindparam("product_id"), title=bindparam("title"), picture_url="", shop_name="s"
    )
)
# Takes a while, and begins with a read of the file.
_SEARCH = Query(
    text(
        "WITH RECURSIVE n(i) AS (SELECT (SELECT count(*) FROM product) * 0"
        " UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT max(i) FROM n"
    )
)


@pytest.mark.parametrize("is_shortened", [True, False])
def test_between_searches_the_log_is_checkpointed_and_the_control(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_shortened: bool
) -> None:
    store = Store(tmp_path / "tollway.db")
    log = Path(f"{store.path}-wal")
    # SQLite checkpoints by itself at a mebibyte, but cannot begin the log again while one reads.
    pragmas = connection._PRAGMAS.replace("16000", "256")
    monkeypatch.setattr(connection, "_PRAGMAS", pragmas)
    monkeypatch.setattr(engine, "_LOG_MAX_BYTES", _MIB if is_shortened else 1024 * _MIB)

    async def work(database: OpenDatabase) -> int:
        is_over = False
        searched = asyncio.Event()

        async def search(caller: str) -> int:
            searches = 0
            while not is_over:
                ((found,),) = await database.fetch_long(_SEARCH, caller)
                assert found == 100_000
                searches += 1
                searched.set()
            return searches

        # One of them always reads.
        searching = [asyncio.create_task(search(name)) for name in "abc"]
        longest = 0
        for number in range(160):
            rows = [{"product_id": f"{number}.{n}", "title": "t" * 4000} for n in range(25)]
            await database.write(lambda tx, rows=rows: tx.execute_many(_ADD, rows))
            longest = max(longest, log.stat().st_size)  # noqa: ASYNC240 - nothing else waits
            if number % 10 == 0:
                # Otherwise all may be written during one search.
                searched.clear()
                await searched.wait()
        is_over = True
        assert all(await asyncio.gather(*searching))
        return longest

    # apsw, as in the gateway: two SQLite libraries in one process do not see each other's locks.
    with closing(apsw.Connection(str(store.path))) as reader:
        if not is_shortened:
            # On a busy machine there are moments without a search, in which the log begins again.
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM product").fetchone()
        longest = store.do(work)
    # 16 MiB were written, which take more than that in the log.
    assert (longest < 15 * _MIB) is is_shortened, f"{longest / _MIB:.1f} MiB"
    assert store.run("SELECT count(*) FROM product") == [(4000,)]
