"""`python -m tests.support.other_clock SECONDS ARGUMENTS`: `tollway` on a machine whose clock is
this far ahead, or behind. In place of the seconds, a file that has them: it can be written again.
The code is the same, and so are all clocks that only run."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tollway.__main__ import main
from tollway.ledger import runtime
from tollway.ledger.runtime import CautiousClock, Runtime

_real = time.time


def program(clock_ahead_s: int) -> Sequence[str]:
    """What to run for `tollway` under such a clock."""
    return (__name__, str(clock_ahead_s)) if clock_ahead_s else ("tollway",)


def set_clock(ahead_s: Callable[[], str]) -> None:
    def shifted() -> float:
        return _real() + float(ahead_s())

    time.time = shifted
    # Those who took it by its name when they were loaded have it still.
    for name, module in list(sys.modules.items()):
        if name.startswith("tollway"):
            for known_as, value in list(vars(module).items()):
                if value is _real:
                    setattr(module, known_as, shifted)
    _, *others = Runtime.__init__.__defaults__ or ()
    Runtime.__init__.__defaults__ = (shifted, *others)
    # It was so when the process began.
    runtime._cautious_clock = CautiousClock()


if __name__ == "__main__":
    _, ahead, *arguments = sys.argv
    set_clock(Path(ahead).read_text if Path(ahead).exists() else lambda: ahead)
    main(arguments)
