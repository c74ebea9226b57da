"""How many files a worker may open, and so how many connections it can have."""

import resource
from dataclasses import replace

from tollway.settings import Settings

# Kept for databases, logs and connections to carriers; half of all files if the limit is low.
_OTHERS_MAX = 1024


def within_open_files(settings: Settings) -> tuple[Settings, list[str]]:
    """The settings with as many connections as leave files for the rest, and a sentence if that is
    fewer. If no file can be opened, a worker cannot even end connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    connections = most - min(_OTHERS_MAX, most // 2)
    if most == resource.RLIM_INFINITY or connections >= settings.connections_max:
        return settings, []
    sentence = (
        f"A process may open {most} files here (ulimit -Hn), so each worker has {connections} "
        f"connections at once, and not {settings.connections_max} as connections_max says."
    )
    return replace(settings, connections_max=connections), [sentence]


def allow_open_files(connections_max: int) -> None:
    """Raises the usual limit of 1,024 open files, which a few clients could use up."""
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if least == resource.RLIM_INFINITY:
        return
    wanted = connections_max + _OTHERS_MAX
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(least, wanted), most))
