"""`tollway serve`, the same code as ever, but for the place it dies at (`dying.py`).

Its orders are one argument of JSON.
"""

import json
import os
import sys
from typing import Any

from tests.killing.boundaries import Boundary
from tests.killing.dying import doom
from tollway.__main__ import main


def live(port: int, boundary: list[Any] | None, sabotage: str | None, report_file: str) -> None:
    # One group, so that all of its processes can be killed in the same instant.
    os.setpgid(0, 0)
    doom(None if boundary is None else Boundary(*boundary), sabotage, report_file)
    main(["serve", "--port", str(port)])


if __name__ == "__main__":
    live(**json.loads(sys.argv[1]))
