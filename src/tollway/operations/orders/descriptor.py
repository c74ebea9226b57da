"""What the rest of the gateway needs to know of the paged order query."""

from tollway.contract.operation import Encoding, Operation, Unit
from tollway.contract.reasons import Reason
from tollway.operations.orders.request import OrdersRequest
from tollway.operations.orders.response import OrderPage

ORDERS = Operation(
    name="orders",
    title="Paged order query",
    method="POST",
    path="/papi/tool/erps/paging-orders",
    encoding=Encoding.FORM,
    request_type=OrdersRequest,
    response_type=OrderPage,
    unit=Unit.CREDITS,
    default_price=1,
    codes=(0, 100, 101, 200, 202, 203, 204, 401, 404),
    own_reasons=(Reason.FILTER_NEEDS_ENHANCED, Reason.WINDOW_BACKWARDS),
)
