"""`python -m tests.cli.killed_half_way ARGUMENTS`: `tollway`, killed with -9 when it has replaced a
first piece of many rows."""

import os
import signal
import sys
from typing import Any

from tollway.__main__ import main
from tollway.gateway import receiver_erasure, resealing
from tollway.store.small_commits import _AT_ONCE, replace_rows


async def _replace_and_die(*arguments: Any) -> int:
    count = await replace_rows(*arguments)
    if count == _AT_ONCE:
        os.kill(os.getpid(), signal.SIGKILL)
    return count


if __name__ == "__main__":
    receiver_erasure.replace_rows = resealing.replace_rows = _replace_and_die
    main(sys.argv[1:])
