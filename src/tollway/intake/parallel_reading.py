"""Reading a large file in a process of its own.

Reading, checking and sealing a record takes as long as storing it. On two cores at
once, that loads a file in about half the time. For a small file, starting the process would take
longer than it saves.
"""

import gc
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from tollway.contract.language import Sentence
from tollway.intake.files import read_records
from tollway.intake.loading import CheckedChunk, RecordKind, Reject, checked_chunks
from tollway.intake.raw_records import IntakeError
from tollway.store.open import open_sealer

_LARGE_BYTES = 4 * 1024 * 1024
# So many new objects are searched for garbage at once: several chunks of rows.
_SEARCHED_AT_ONCE = 50_000


class _SentChunk(msgspec.Struct):
    """A chunk that one process sends to the other; `problem` ends the file."""

    good: msgspec.Raw
    rejects: list[Reject]
    at_byte: int
    is_last: bool = False
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
    # Spawned, not forked: this process has threads, which a fork would leave half behind.
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    arguments = (sender, kind, path, database_url, key_file)
    reader = context.Process(target=_send, args=arguments, daemon=True)
    reader.start()
    sender.close()
    usual_thresholds = gc.get_threshold()
    _spare_garbage_collector()
    rows = msgspec.msgpack.Decoder(list[kind.row_type])  # type: ignore[name-defined]
    try:
        while True:
            # The reader can be one chunk ahead: the pipe holds less than the next one.
            sent = _decoder.decode(receiver.recv_bytes())
            if sent.problem is not None:
                raise IntakeError.of(sent.problem)
            if sent.is_last:
                return
            yield CheckedChunk(rows.decode(sent.good), sent.rejects, sent.at_byte)
    except EOFError:
        raise IntakeError("Reading {name} ended half-way: load it again.", name=path.name) from None
    finally:
        gc.set_threshold(*usual_thresholds)
        receiver.close()
        reader.join()


def _send(
    sender: Connection, kind: RecordKind, path: Path, database_url: str, key_file: str
) -> None:
    """Runs in the second process: sends chunk after chunk, then the end or a problem."""
    _spare_garbage_collector()
    end = _SentChunk(msgspec.Raw(b"\xc0"), [], 0, is_last=True)
    try:
        for chunk in _read(kind, path, database_url, key_file):
            good = msgspec.Raw(_encoder.encode(chunk.good))
            sender.send_bytes(_encoder.encode(_SentChunk(good, chunk.rejects, chunk.at_byte)))
    except IntakeError as error:
        end.problem = error.sentence
    except (BrokenPipeError, KeyboardInterrupt):
        return
    sender.send_bytes(_encoder.encode(end))


def _spare_garbage_collector() -> None:
    """Exempts the imported modules, and lets rows pass, none of which is part of a cycle: to search
    them for garbage again and again would take a tenth of the time."""
    gc.freeze()
    gc.set_threshold(_SEARCHED_AT_ONCE)
