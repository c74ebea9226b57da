"""The command `tollway` with a demo world that is much smaller: it is made in a second."""

from types import ModuleType

from tollway.__main__ import main
from tollway.operations.coupon_claims import demo as claims
from tollway.operations.orders import demo as orders
from tollway.operations.product_analysis import demo as figures
from tollway.operations.waybills import demo as waybills

SIZES: list[tuple[ModuleType, object]] = [
    (figures, figures.Size(24, 40)),
    (claims, claims.Size(100, 50)),
    (orders, orders.Size(5000, orders.YEAR_DAYS)),
    (waybills, 200),
]


def make_small() -> None:
    for module, size in SIZES:
        vars(module)["WORLD"] = size


if __name__ == "__main__":
    make_small()
    main()
