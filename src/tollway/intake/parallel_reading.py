"""Reading a large file in a second process.

Reading, checking and sealing a record takes as long as storing it. On two cores, a second process
loads a file in about half the time. For a small file, starting it would take longer than it saves.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Generic, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from tollway.contract.language import Sentence
from tollway.intake.files import read_typed
from tollway.intake.loading import Batch, CheckedChunk, RecordKind, Reject, checked_chunks
from tollway.intake.raw_records import IntakeError
from tollway.intake.second_process import SecondProcess
from tollway.store.open import open_sealer

_LARGE_BYTES = 4 * 1024 * 1024

_B = TypeVar("_B", bound=Batch)


class _SentChunk(msgspec.Struct, Generic[_B]):
    """A chunk that one process sends to the other; `problem` ends the file."""

    good: _B | None
    rejects: list[Reject]
    at_byte: int
    problem: Sentence | None = None


_encoded = msgspec.msgpack.Encoder().encode


def file_chunks(
    kind: RecordKind, path: Path, database_url: str, key_file: str, zone: ZoneInfo
) -> Iterator[CheckedChunk]:
    """The records of a file, checked; a large file is read in a second process.

    That process starts now, but waits until the first records are asked for. Call this before
    opening a database, which starts threads: then the process can be forked, which is cheaper.
    """
    is_large = path.is_file() and path.stat().st_size >= _LARGE_BYTES
    if kind.batch_type is None or not is_large:
        return _read(kind, path, database_url, key_file, zone)
    reader = SecondProcess(_sent, kind, path, database_url, key_file, zone, is_held=True)
    return _received(reader, kind.batch_type, path.name)


def _read(
    kind: RecordKind, path: Path, database_url: str, key_file: str, zone: ZoneInfo
) -> Iterator[CheckedChunk]:
    """Reads or makes the key file only when the first records are asked for: by then it has been
    checked against the database."""
    loader = kind.make_loader(open_sealer(database_url, key_file) if kind.is_sealed else None)
    records = read_typed(path, kind.record_types, zone)
    yield from checked_chunks(loader, records, kind.chunk_records)


def _received(reader: SecondProcess, batch_type: type[Batch], name: str) -> Iterator[CheckedChunk]:
    """A thread receives and decodes the next chunk while the one before is stored."""
    pieces = reader.pieces()
    decoded = msgspec.msgpack.Decoder(_SentChunk[batch_type]).decode  # type: ignore[valid-type]

    def receive() -> CheckedChunk | None:
        piece = next(pieces, None)
        if piece is None:
            return None
        chunk = decoded(piece)
        if chunk.problem is not None:
            raise IntakeError.of(chunk.problem)
        return CheckedChunk(chunk.good, chunk.rejects, chunk.at_byte)

    try:
        with ThreadPoolExecutor(1, "tollway-receive") as pool:
            coming = pool.submit(receive)
            while (chunk := coming.result()) is not None:
                coming = pool.submit(receive)
                yield chunk
    except EOFError:
        raise IntakeError("Reading {name} ended half-way: load it again.", name=name) from None
    finally:
        pieces.close()


def _sent(
    kind: RecordKind, path: Path, database_url: str, key_file: str, zone: ZoneInfo
) -> Iterator[bytes]:
    """Runs in the second process: chunk after chunk, and a problem at the end."""
    assert kind.batch_type is not None, "otherwise there is one process"
    try:
        for chunk in _read(kind, path, database_url, key_file, zone):
            good = kind.batch_type.of(chunk.good)
            piece = _encoded(_SentChunk(good, chunk.rejects, chunk.at_byte))
            # Before the next ones are made, which then find their memory free.
            del chunk, good
            yield piece
    except IntakeError as error:
        yield _encoded(_SentChunk(None, [], 0, error.sentence))
