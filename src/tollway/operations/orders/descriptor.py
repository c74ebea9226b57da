"""What the rest of the gateway needs to know of the paged order query."""

from tollway.contract.operation import ConsentNeed, Encoding, Operation, OwnerKind, Unit
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
    codes=(0, 100, 101, 103, 200, 202, 203, 204, 302, 401, 404),
    consent=ConsentNeed(
        whose=OwnerKind.SHOP,
        field="owner_id",
        scope="orders",
        asks="read the orders of your shop, with the receivers masked",
    ),
    own_reasons=(Reason.FILTER_NEEDS_ENHANCED, Reason.WINDOW_BACKWARDS),
)
