"""What the rest of the gateway needs to know of the coupon-claim query."""

from tollway.contract.operation import Encoding, Operation, Unit
from tollway.contract.reasons import Reason
from tollway.operations.coupon_claims.request import CouponClaimsRequest
from tollway.operations.coupon_claims.response import CouponClaims

COUPON_CLAIMS = Operation(
    name="coupon_claims",
    title="Coupon-claim query",
    method="POST",
    path="/papi/tool/waimai/partner_couponList",
    encoding=Encoding.FORM,
    request_type=CouponClaimsRequest,
    response_type=CouponClaims,
    unit=Unit.CREDITS,
    default_price=1,
    codes=(0, 100, 101, 200, 202, 203, 204, 401, 404),
    own_reasons=(Reason.WINDOW_BACKWARDS, Reason.WINDOW_TOO_LONG),
)
