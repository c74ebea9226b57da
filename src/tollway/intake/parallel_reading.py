"""Reading a large file in a process of its own.

Reading, checking and sealing a record takes as long as storing it. On two cores at
once, that loads a file in about half the time. For a small file, starting the process would take
longer than it saves.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from tollway.contract.language import Sentence
from tollway.intake.files import read_records
from tollway.intake.loading import CheckedChunk, RecordKind, Reject, checked_chunks
from tollway.intake.raw_records import IntakeError
from tollway.intake.second_process import SecondProcess
from tollway.store.open import open_sealer

_LARGE_BYTES = 4 * 1024 * 1024


class _SentChunk(msgspec.Struct):
    """A chunk that one process sends to the other; `problem` ends the file."""

    good: msgspec.Raw
    rejects: list[Reject]
    at_byte: int
    problem: Sentence | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_SentChunk)


def file_chunks(
    kind: RecordKind, path: Path, database_url: str, key_file: str
) -> Iterator[CheckedChunk]:
    """The records of a file, checked; a large file is read in a second process."""
    is_large = path.is_file() and path.stat().st_size >= _LARGE_BYTES
    if kind.row_type is None or not is_large:
        return _read(kind, path, database_url, key_file)
    return _received(kind, path, database_url, key_file)


def _read(kind: RecordKind, path: Path, database_url: str, key_file: str) -> Iterator[CheckedChunk]:
    loader = kind.make_loader(open_sealer(database_url, key_file) if kind.is_sealed else None)
    return checked_chunks(loader, read_records(path), kind.chunk_records)


def _received(
    kind: RecordKind, path: Path, database_url: str, key_file: str
) -> Iterator[CheckedChunk]:
    reader = SecondProcess(_sent, kind, path, database_url, key_file)
    rows = msgspec.msgpack.Decoder(list[kind.row_type])  # type: ignore[name-defined]
    try:
        for piece in reader.pieces():
            chunk = _decoder.decode(piece)
            if chunk.problem is not None:
                raise IntakeError.of(chunk.problem)
            yield CheckedChunk(rows.decode(chunk.good), chunk.rejects, chunk.at_byte)
    except EOFError:
        raise IntakeError("Reading {name} ended half-way: load it again.", name=path.name) from None


def _sent(kind: RecordKind, path: Path, database_url: str, key_file: str) -> Iterator[bytes]:
    """Runs in the second process: chunk after chunk, and a problem at the end."""
    try:
        for chunk in _read(kind, path, database_url, key_file):
            good = msgspec.Raw(_encoder.encode(chunk.good))
            yield _encoder.encode(_SentChunk(good, chunk.rejects, chunk.at_byte))
    except IntakeError as error:
        yield _encoder.encode(_SentChunk(msgspec.Raw(b"\xc0"), [], 0, error.sentence))
