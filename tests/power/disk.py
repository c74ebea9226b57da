"""A disk that remembers every write, and tells what it may hold if the power had gone at a moment.

What was synced is there. Of what was written since then, each sector is there as it was left by any
of the writes to it, or as it was before the first: the system writes sectors back when it likes, in
the order it likes. A sector is written whole or not at all.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw

SECTOR = 512
_NAME = "remembers"
_USUAL = "unix"


class Write(NamedTuple):
    at: int
    data: bytes


class Truncate(NamedTuple):
    size: int


class Sync(NamedTuple):
    """All that was written to the file before is on the disk."""


class FailedSync(NamedTuple):
    """The system reports an error once. What it could not write it takes for written all the same,
    and no later sync writes it again."""


Action = Write | Truncate | Sync | FailedSync


class Step(NamedTuple):
    file: str
    what: Action


class Disk:
    """What was done to the files that belong to a path, from what they were at the beginning on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.journal: list[Step] = []
        self._before = {file.name: file.read_bytes() for file in path.parent.glob(f"{path.name}*")}

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """Databases that are opened meanwhile have their files on this disk."""
        system = _System(str(self._path), self.journal)
        try:
            yield
        finally:
            system.unregister()
            apsw.set_default_vfs(_USUAL)

    @property
    def syncs(self) -> int:
        return sum(isinstance(step.what, Sync) for step in self.journal)

    def cut_off(
        self, moments: Iterable[int], chance: random.Random
    ) -> Iterator[tuple[int, dict[str, bytes]]]:
        """What the files may hold if the power goes after so many steps, each a way of its own."""
        files: defaultdict[str, _File] = defaultdict(_File)
        for name, content in self._before.items():
            files[name].synced[:] = content
        done = 0
        for moment in sorted(moments):
            for step in self.journal[done:moment]:
                files[step.file].take(step.what, chance)
            done = moment
            yield moment, {name: file.cut_off(chance) for name, file in files.items()}


def put_back(files: dict[str, bytes], folder: Path) -> Path:
    """The database that is found in this folder when the power is back."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        # The index of the log is in memory, and gone.
        if not name.endswith("-shm"):
            (folder / name).write_bytes(content)
    return folder / "tollway.db"


class _File:
    """One file: what is on the disk for certain, and what was done since."""

    def __init__(self) -> None:
        self.synced = bytearray()
        self._since: list[Write | Truncate] = []
        # How many of these writes there are to each sector.
        self._writes: defaultdict[int, int] = defaultdict(int)

    def take(self, what: Action, chance: random.Random) -> None:
        if isinstance(what, Write):
            self._since.append(what)
            for sector in _sectors(what):
                self._writes[sector] += 1
            return
        if isinstance(what, Truncate):
            self._since.append(what)
            return
        if isinstance(what, FailedSync):
            self.synced[:] = self.cut_off(chance)
        else:
            for each in self._since:
                _apply(self.synced, each)
        self._since.clear()
        self._writes.clear()

    def cut_off(self, chance: random.Random) -> bytes:
        content = bytearray(self.synced)
        # Often all or none of the writes have arrived: the disk had time enough, or none.
        mood = chance.choice(("none", "all", "some", "some"))
        writes = self._writes.items() if mood == "some" else ()
        # How many of the writes to each sector have arrived. `randint` takes five times as long.
        left = {sector: int(chance.random() * (count + 1)) for sector, count in writes}
        truncates_left = chance.randint(0, sum(isinstance(each, Truncate) for each in self._since))
        for each in self._since:
            if isinstance(each, Truncate):
                if truncates_left:
                    truncates_left -= 1
                    _apply(content, each)
            elif mood == "all":
                _apply(content, each)
            elif mood == "some":
                _apply_parts(content, each, left)
        return bytes(content)


def _sectors(write: Write) -> range:
    return range(write.at // SECTOR, (write.at + len(write.data) - 1) // SECTOR + 1)


def _apply_parts(content: bytearray, write: Write, left: dict[int, int]) -> None:
    """The sectors of a write of which a write is left."""
    at, data = write
    for sector in _sectors(write):
        if left[sector]:
            left[sector] -= 1
            begin = max(at, sector * SECTOR)
            _apply(content, Write(begin, data[begin - at : (sector + 1) * SECTOR - at]))


def _apply(content: bytearray, what: Write | Truncate) -> None:
    if isinstance(what, Truncate):
        del content[what.size :]
        return
    if what.at > len(content):
        content.extend(bytes(what.at - len(content)))
    content[what.at : what.at + len(what.data)] = what.data


class _System(apsw.VFS):
    """The usual one, which notes what is done to some files."""

    def __init__(self, path: str, journal: list[Step]) -> None:
        super().__init__(_NAME, _USUAL, makedefault=True)
        self._path = path
        self._journal = journal

    def xOpen(  # noqa: N802 - SQLite names it
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        filename = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        if filename.startswith(self._path):
            return _NotedFile(name, flags, Path(filename).name, self._journal)
        return apsw.VFSFile(_USUAL, name, flags)


class _NotedFile(apsw.VFSFile):
    def __init__(
        self,
        name: str | apsw.URIFilename | None,
        flags: list[int],
        file: str,
        journal: list[Step],
    ) -> None:
        super().__init__(_USUAL, name, flags)
        self._file = file
        self._journal = journal

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._journal.append(Step(self._file, Write(offset, bytes(data))))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._journal.append(Step(self._file, Truncate(newsize)))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        # Only now: until it has returned, nothing is certain.
        self._journal.append(Step(self._file, Sync()))
