"""Prints the Python for .venv: the one this runs with, or the system's own if that is better.

A Python that was compiled without optimisations, as pyenv does unless it is asked for them, takes
about a quarter longer for a paid call. Systems optimise theirs.
Python 3.6 must be able to read this, to say that it is too old.
"""

import subprocess
import sys
import sysconfig

SYSTEM = "/usr/bin/python3"
# What .venv and the tests need of it.
USABLE = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"


def is_optimised() -> bool:
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    return "--enable-optimizations" in options or sys.base_prefix == "/usr"


def is_usable(python: str) -> bool:
    try:
        done = subprocess.run([python, "-c", USABLE], stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return False
    return done.returncode == 0


def choose() -> str:
    is_good = sys.version_info >= (3, 11) and is_optimised()
    return "python3" if is_good or not is_usable(SYSTEM) else SYSTEM


if __name__ == "__main__":
    print(choose())
