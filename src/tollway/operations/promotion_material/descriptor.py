"""What the rest of the gateway needs to know of promotion material."""

from tollway.contract.operation import ConsentNeed, Encoding, Operation, OwnerKind, Unit
from tollway.operations.promotion_material.request import PromotionMaterialRequest
from tollway.operations.promotion_material.response import PromotionMaterial

PROMOTION_MATERIAL = Operation(
    name="promotion_material",
    title="Affiliate promotion material",
    method="POST",
    path="/papi/tool/affiliate/promotion",
    encoding=Encoding.JSON,
    request_type=PromotionMaterialRequest,
    response_type=PromotionMaterial,
    unit=Unit.CREDITS,
    default_price=1,
    codes=(0, 100, 101, 103, 200, 202, 203, 204, 302, 401, 404),
    consent=ConsentNeed(
        whose=OwnerKind.USER,
        field="platform_user_id",
        scope="promotion",
        asks="look up promotion material with links that carry your promotion slots",
    ),
)
