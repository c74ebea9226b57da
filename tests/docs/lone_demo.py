"""The command `tollway` with a small demo world that one process makes: a second one takes longer
to load than these orders take to make. `tests/demo/` has one that is made by two, with more
products and orders than the pages show."""

from tests.docs.small_demo import make_small
from tollway.__main__ import main
from tollway.operations.orders import demo as orders
from tollway.operations.product_analysis import demo as figures

if __name__ == "__main__":
    make_small()
    vars(figures)["WORLD"] = figures.Size(6, 40)
    # More than the tour compares.
    vars(orders)["WORLD"] = orders.Size(3000, orders.YEAR_DAYS)
    vars(orders)["made_in_second_process"] = lambda _, make: make()
    main()
