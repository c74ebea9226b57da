"""All operations. Everything that goes over "each operation" goes over this tuple."""

from tollway.contract.operation import Operation
from tollway.operations.coupon_claims.descriptor import COUPON_CLAIMS
from tollway.operations.product_analysis.descriptor import PRODUCT_ANALYSIS
from tollway.operations.promotion_material.descriptor import PROMOTION_MATERIAL

OPERATIONS: tuple[Operation, ...] = (PRODUCT_ANALYSIS, COUPON_CLAIMS, PROMOTION_MATERIAL)

BY_NAME = {operation.name: operation for operation in OPERATIONS}
