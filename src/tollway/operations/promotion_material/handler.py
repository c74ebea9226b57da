"""The work of promotion material: reads what is on display and puts the caller's slot in the links.

Nothing is cached: what is on display depends on the moment, and the links on the caller.
"""

from collections.abc import Callable
from time import time

from tollway.contract.envelope import encode_data
from tollway.contract.operation import CallInfo
from tollway.operations.promotion_material.operation import (
    Materials,
    PromotionMaterial,
    PromotionMaterialRequest,
    Result,
)
from tollway.operations.promotion_material.queries import read_page
from tollway.operations.promotion_material.ready import joined_materials
from tollway.store.database import Database


class PromotionMaterialHandler:
    """Answers promotion material from one database."""

    def __init__(self, database: Database, now_s: Callable[[], float] = time) -> None:
        self._database = database
        self._now_s = now_s

    async def __call__(self, request: PromotionMaterialRequest, call: CallInfo) -> bytes:
        page = await read_page(
            self._database,
            request.promotion_id,
            int(self._now_s() * 1000),
            page=request.page_num,
            size=request.page_size,
        )
        slot = f"mm_{request.platform_user_id}_{request.site_id}_{request.adzone_id}"
        materials = Materials(map_data=joined_materials(page, slot))
        return encode_data(PromotionMaterial(call.price, Result(materials)))
