"""The work of promotion material: finds what is on display and puts the caller's slot in the links.

Of an embedded database the material is kept in memory: it tells of every change before the next
call. A server tells of one a moment later, so there each page is read.
"""

from collections.abc import Awaitable, Callable
from time import time

from tollway.contract.envelope import LIST_TO_COME, encode_around
from tollway.contract.operation import CallInfo
from tollway.operations.promotion_material.known import KnownMaterial
from tollway.operations.promotion_material.operation import (
    Materials,
    PromotionMaterial,
    PromotionMaterialRequest,
    Result,
)
from tollway.operations.promotion_material.queries import read_page
from tollway.operations.promotion_material.ready import with_slots
from tollway.store.concurrency import read_at_once
from tollway.store.database import Database
from tollway.store.versions import Versions


class PromotionMaterialHandler:
    """Answers promotion material from one database."""

    def __init__(
        self, database: Database, versions: Versions, now_s: Callable[[], float] = time
    ) -> None:
        self._database = database
        self._versions = versions
        self._known = KnownMaterial(-1)
        self._now_s = now_s

    def __call__(
        self, request: PromotionMaterialRequest, call: CallInfo
    ) -> Awaitable[bytes] | bytes:
        return read_at_once(self._database, self._answer(request, call))

    async def _answer(self, request: PromotionMaterialRequest, call: CallInfo) -> bytes:
        page = await self._page(request, int(self._now_s() * 1000))
        slot = f"mm_{request.platform_user_id}_{request.site_id}_{request.adzone_id}"
        materials = PromotionMaterial(call.price, Result(Materials(map_data=LIST_TO_COME)))
        return encode_around(materials, with_slots(page, slot))

    async def _page(self, request: PromotionMaterialRequest, now_ms: int) -> bytes:
        database, wanted = self._database, request.promotion_id
        page, size = request.page_num, request.page_size
        if not database.reads_at_once:
            return await read_page(database, wanted, now_ms, page=page, size=size)
        # They were read when the headers came; the body may have taken seconds more.
        if not self._versions.is_fresh():
            await self._versions.refresh()
        if self._known.version != self._versions.material:
            self._known = KnownMaterial(self._versions.material)
        return await self._known.page(database, wanted, now_ms, page=page, size=size)
