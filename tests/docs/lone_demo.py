"""The command `tollway` with a small demo world that one process makes: a second one takes longer
to load than these orders take to make. `tests/demo/` has one that is made by two."""

from tests.docs.small_demo import make_small
from tollway.__main__ import main
from tollway.operations.orders import demo as orders

if __name__ == "__main__":
    make_small()
    vars(orders)["made_aside"] = lambda _, make: make()
    main()
