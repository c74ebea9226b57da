"""The kinds of record that can be pushed, by the name that stands in the push's address."""

from tollway.intake.coupon_claims import CouponClaims
from tollway.intake.loading import Loader
from tollway.intake.orders import Orders
from tollway.store.sealing import Sealer


def loaders(sealer: Sealer) -> dict[str, Loader]:
    return {"orders": Orders(sealer), "coupon-claims": CouponClaims()}
