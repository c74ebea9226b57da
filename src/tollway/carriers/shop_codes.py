"""The association code of each shop."""

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.postgresql import insert

from tollway.store.database import Database, Reader, Transaction
from tollway.store.query import Query
from tollway.store.schema import shop_code

_FIND = Query(select(shop_code.c.code).where(shop_code.c.owner_id == bindparam("wanted")))
_new = insert(shop_code).values(owner_id=bindparam("owner_id"), code=bindparam("code"))
_PUT = Query(
    _new.on_conflict_do_update(
        index_elements=[shop_code.c.owner_id], set_={"code": _new.excluded.code}
    )
)


class ShopCodes:
    """Knows each shop's code."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def code_of(self, owner_id: str) -> str | None:
        row = await self._reader.fetch_one(_FIND, wanted=owner_id)
        return None if row is None else str(row[0])


async def set_shop_code(database: Database, owner_id: str, code: str) -> None:
    async def work(transaction: Transaction) -> None:
        await transaction.execute(_PUT, owner_id=owner_id, code=code)

    await database.write(work)
