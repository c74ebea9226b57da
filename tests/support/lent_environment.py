"""The bytecode and the pip of this environment, for another one: to compile all of it again takes a
second, and to install a pip of its own four."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

import tollway

_OURS = (Path(tollway.__file__).resolve().parents[1], Path(sysconfig.get_path("purelib")))


def lend_bytecode(packages: Path) -> None:
    """Gives it to the modules in a folder of packages that are loaded here, and are the same."""
    for module in list(sys.modules.values()):
        path, compiled = getattr(module, "__file__", None), getattr(module, "__cached__", None)
        folder = next((each for each in _OURS if path and path.startswith(f"{each}/")), None)
        if path is None or compiled is None or folder is None or not Path(compiled).exists():
            continue
        source = packages / Path(path).relative_to(folder)
        if source.exists() and source.read_bytes() == Path(path).read_bytes():
            lent = packages / Path(compiled).relative_to(folder)
            lent.parent.mkdir(exist_ok=True)
            shutil.copyfile(compiled, lent)
            # Bytecode names the time of its source.
            made = Path(path).stat()
            os.utime(source, ns=(made.st_atime_ns, made.st_mtime_ns))


def lend_pip(programs: Path) -> None:
    """Makes a `pip` in the folder of an environment's programs; it installs into that one."""
    pip, python = programs / "pip", programs / "python"
    pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --python {python} "$@"\n')
    pip.chmod(0o755)
