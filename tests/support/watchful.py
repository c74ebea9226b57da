"""`python -m tests.support.watchful ARGUMENTS`: `tollway` that watches accounts all the time, so
that a test need not wait ten seconds for what is reported. All else is the same."""

import sys

from tollway.__main__ import main
from tollway.gateway import worker

_INTERVAL_S = 0.2


def watch_often() -> None:
    worker._WATCH_INTERVAL_S = _INTERVAL_S


if __name__ == "__main__":
    watch_often()
    main(sys.argv[1:])
