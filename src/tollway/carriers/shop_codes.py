"""The association code of each shop."""

from sqlalchemy import bindparam, select

from tollway.contract.operation import OwnerKind
from tollway.store.consent_tables import owner
from tollway.store.database import Reader
from tollway.store.query import Query

_FIND = Query(
    select(owner.c.shop_code).where(
        owner.c.kind == bindparam("of_kind"), owner.c.id == bindparam("wanted")
    )
)


class ShopCodes:
    """Knows each shop's code."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def code_of(self, owner_id: str) -> str | None:
        row = await self._reader.fetch_one(_FIND, of_kind=OwnerKind.SHOP, wanted=owner_id)
        return None if row is None else row[0]
