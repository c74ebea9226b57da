"""What the rest of the gateway needs to know of product analysis."""

from tollway.contract.operation import Encoding, Operation, Unit
from tollway.contract.reasons import Reason
from tollway.operations.product_analysis.request import ProductAnalysisRequest
from tollway.operations.product_analysis.response import ProductAnalysis

PRODUCT_ANALYSIS = Operation(
    name="product_analysis",
    title="Product analysis",
    method="GET",
    path="/papi/tool/accounts/goods-analysis",
    encoding=Encoding.QUERY,
    request_type=ProductAnalysisRequest,
    response_type=ProductAnalysis,
    unit=Unit.CALLS,
    default_price=1,
    codes=(0, 100, 101, 200, 202, 203, 204, 401, 404),
    own_reasons=(Reason.PRODUCT_UNKNOWN, Reason.PRODUCT_WITHOUT_DATA, Reason.DATE_IN_FUTURE),
)
