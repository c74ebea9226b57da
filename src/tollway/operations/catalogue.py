"""All operations. Everything that goes over "each operation" goes over this tuple."""

from tollway.contract.operation import Operation
from tollway.operations.coupon_claims.descriptor import COUPON_CLAIMS
from tollway.operations.orders.descriptor import ORDERS
from tollway.operations.product_analysis.descriptor import PRODUCT_ANALYSIS
from tollway.operations.promotion_material.descriptor import PROMOTION_MATERIAL
from tollway.operations.waybills.descriptor import WAYBILLS

OPERATIONS: tuple[Operation, ...] = (
    PRODUCT_ANALYSIS,
    COUPON_CLAIMS,
    PROMOTION_MATERIAL,
    WAYBILLS,
    ORDERS,
)

BY_NAME = {operation.name: operation for operation in OPERATIONS}
