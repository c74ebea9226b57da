"""The command `tollway` with a demo world that is much smaller: it is made in a second."""

from tollway.cli.main import main
from tollway.demo import world

SIZES = {"PRODUCTS": 4, "DAYS": 90, "CLAIMS_PER_DAY": 100, "ORDERS": 5000, "NUMBERS": 200}


if __name__ == "__main__":
    for name, size in SIZES.items():
        setattr(world, name, size)
    main()
