"""Reading a large file of orders in a process of its own.

Reading, checking and sealing an order takes as long as storing it. Done beside each other on two
cores, a file is loaded in about half the time. Where a file is small, starting the process would
take longer than it saves.
"""

import gc
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from tollway.intake.files import IntakeError, read_records
from tollway.intake.loading import CheckedChunk, Reject, checked_chunks
from tollway.intake.order_record import OrderRow
from tollway.intake.orders import CHUNK_ORDERS, Orders
from tollway.store.open import open_sealer

_LARGE_BYTES = 4 * 1024 * 1024


class _SentChunk(msgspec.Struct):
    """A chunk on its way from one process to the other; `problem` ends the file."""

    good: list[OrderRow]
    rejects: list[Reject]
    at_byte: int
    problem: str | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_SentChunk)


def order_chunks(path: Path, database_url: str, key_file: str) -> Iterator[CheckedChunk]:
    """The orders of a file, checked and sealed."""
    if not path.is_file() or path.stat().st_size < _LARGE_BYTES:
        return _read(path, database_url, key_file)
    return _received(path, database_url, key_file)


def _read(path: Path, database_url: str, key_file: str) -> Iterator[CheckedChunk]:
    loader = Orders(open_sealer(database_url, key_file))
    return checked_chunks(loader, read_records(path), CHUNK_ORDERS)


def _received(path: Path, database_url: str, key_file: str) -> Iterator[CheckedChunk]:
    # Spawned, not forked: this process has threads, which a fork would leave half behind.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    helper = context.Process(target=_send, args=(there, path, database_url, key_file), daemon=True)
    helper.start()
    there.close()
    _spare_the_collector()
    try:
        while True:
            # It can be one chunk ahead and no more: the pipe holds less than the next one.
            sent = _decoder.decode(here.recv_bytes())
            if sent.problem is not None:
                raise IntakeError(sent.problem)
            if not sent.good and not sent.rejects:
                return
            yield CheckedChunk(sent.good, sent.rejects, sent.at_byte)
    except EOFError:
        raise IntakeError(f"Reading {path.name} ended half-way: load it again.") from None
    finally:
        here.close()
        helper.join()


def _send(there: Connection, path: Path, database_url: str, key_file: str) -> None:
    """What the helper does: sends chunk after chunk, and an empty one or a problem at the end."""
    _spare_the_collector()
    end = _SentChunk([], [], 0)
    try:
        for chunk in _read(path, database_url, key_file):
            sent = _SentChunk(chunk.good, chunk.rejects, chunk.at_byte)
            there.send_bytes(_encoder.encode(sent))
    except IntakeError as error:
        end.problem = str(error)
    except (BrokenPipeError, KeyboardInterrupt):
        return
    there.send_bytes(_encoder.encode(end))


def _spare_the_collector() -> None:
    """Has it look at records only: going through all that was imported before, again and again,
    would take a tenth of the time."""
    gc.freeze()
