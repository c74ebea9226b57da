"""All operations. Everything that goes over "each operation" goes over this tuple."""

from tollway.contract.operation import Operation
from tollway.operations.orders.descriptor import ORDERS
from tollway.operations.product_analysis.descriptor import PRODUCT_ANALYSIS

OPERATIONS: tuple[Operation, ...] = (PRODUCT_ANALYSIS, ORDERS)

BY_NAME = {operation.name: operation for operation in OPERATIONS}
