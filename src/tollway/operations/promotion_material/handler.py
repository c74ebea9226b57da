"""The work of promotion material: finds what is on display and puts the caller's slot in the links.

With an embedded database, which reports every change before the next call, the material is cached
as it is answered: a page is then joined without a read. Cached material was read after its version,
so it is never older than that. The next change raises the version, and the next call reads the
material again.

A server reports a change a moment later, so there each call reads its page.
"""

from collections.abc import Awaitable, Callable
from time import time

from tollway.contract.envelope import LIST_TO_COME, encode_around
from tollway.contract.operation import CallInfo
from tollway.operations.promotion_material.operation import (
    Materials,
    PromotionMaterial,
    PromotionMaterialRequest,
    Result,
)
from tollway.operations.promotion_material.queries import (
    StoredMaterial,
    read_page,
    read_promotion,
)
from tollway.operations.promotion_material.records import with_slots
from tollway.store.cache_versions import Versions
from tollway.store.concurrency import read_at_once
from tollway.store.database import Database

# For all promotion ids together; when it is reached, the whole cache is cleared.
_KEPT_BYTES_MAX = 16 * 1024 * 1024
# The approximate overhead of an entry.
_ENTRY_BYTES = 200
_END_OF_TIME_MS = 2**63


class _Promotion:
    """The materials of a promotion id that had not ended at a moment, and those on display."""

    def __init__(self, since_ms: int, materials: list[StoredMaterial]) -> None:
        self.since_ms = since_ms
        self.bytes = _ENTRY_BYTES + sum(len(each.ready) + _ENTRY_BYTES for each in materials)
        self._materials = materials
        # Between these moments no display begins or ends.
        self._from_ms = self._until_ms = since_ms
        self._on_display: list[bytes] = []

    def on_display(self, now_ms: int) -> list[bytes]:
        if not self._from_ms <= now_ms < self._until_ms:
            materials = self._materials
            self._on_display = [
                each.ready for each in materials if each.start_ms <= now_ms < each.end_ms
            ]
            moments = [moment for each in materials for moment in (each.start_ms, each.end_ms)]
            past = [moment for moment in moments if moment <= now_ms]
            coming = [moment for moment in moments if moment > now_ms]
            self._from_ms = max([self.since_ms, *past])
            self._until_ms = min(coming, default=_END_OF_TIME_MS)
        return self._on_display


class MaterialCache:
    """A cache of the promotion ids that were asked for in one version of the material."""

    def __init__(self, version: int) -> None:
        self.version = version
        # None for a promotion id with too much material to cache.
        self._promotions: dict[int, _Promotion | None] = {}
        self._bytes = 0

    async def page(
        self, database: Database, promotion_id: int, now_ms: int, *, page: int, size: int
    ) -> bytes:
        """One page of what is on display now, as `read_page` reads it."""
        known = self._promotions.get(promotion_id)
        # The cache lacks what had ended when it was read, so it is no use if the clock went back.
        if (known is None and promotion_id not in self._promotions) or (
            known is not None and now_ms < known.since_ms
        ):
            known = await self._read(database, promotion_id, now_ms)
        if known is None:
            return await read_page(database, promotion_id, now_ms, page=page, size=size)
        first = (page - 1) * size
        return b",".join(known.on_display(now_ms)[first : first + size])

    async def _read(self, database: Database, promotion_id: int, now_ms: int) -> _Promotion | None:
        materials = await read_promotion(database, promotion_id, now_ms)
        known = None if materials is None else _Promotion(now_ms, materials)
        self._bytes += _ENTRY_BYTES if known is None else known.bytes
        if self._bytes > _KEPT_BYTES_MAX:
            self._promotions, self._bytes = {}, _ENTRY_BYTES if known is None else known.bytes
        self._promotions[promotion_id] = known
        return known


class PromotionMaterialHandler:
    def __init__(
        self, database: Database, versions: Versions, now_s: Callable[[], float] = time
    ) -> None:
        self._database = database
        self._versions = versions
        self._known = MaterialCache(-1)
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
        if database.row_at_once is None:
            return await read_page(database, wanted, now_ms, page=page, size=size)
        # The versions were read when the headers came; the body may have taken seconds more.
        if not self._versions.is_fresh():
            await self._versions.refresh()
        if self._known.version != self._versions.material:
            self._known = MaterialCache(self._versions.material)
        return await self._known.page(database, wanted, now_ms, page=page, size=size)
