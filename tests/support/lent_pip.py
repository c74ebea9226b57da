"""The pip of this environment, for another one: to install a pip of its own takes four seconds."""

import sys
from pathlib import Path


def lend_pip(programs: Path) -> None:
    """Makes a `pip` in the folder of an environment's programs; it installs into that one."""
    pip, python = programs / "pip", programs / "python"
    pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --python {python} "$@"\n')
    pip.chmod(0o755)
