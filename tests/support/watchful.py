"""`python -m tests.support.watchful ARGUMENTS`: `tollway` that watches accounts and delivers its
webhooks all the time, so that no test waits ten seconds for what is reported. All else is the same.
"""

import sys

from tollway.__main__ import main
from tollway.gateway import worker

_INTERVAL_S = 0.2


def hurry() -> None:
    worker._WATCH_INTERVAL_S = worker._WEBHOOK_INTERVAL_S = _INTERVAL_S


if __name__ == "__main__":
    hurry()
    main(sys.argv[1:])
