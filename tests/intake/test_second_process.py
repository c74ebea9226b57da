"""Records that a second process makes: all of them, in order, or a plain error."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from tests.support.orders import order
from tests.support.stores import Store
from tollway.intake.second_process import SecondProcess
from tollway.operations.demo_data import made_aside
from tollway.store.database import StoreError


class Row(NamedTuple):
    number: int
    sealed: bytes


def _pieces(first: int, end: int) -> Iterator[bytes]:
    return (b"%d" % number * 100_000 for number in range(first, end))


def _cut_off(first: int, end: int) -> Iterator[bytes]:
    yield from _pieces(first, end)
    os._exit(1)


def _content(path: Path) -> Iterator[bytes]:
    yield path.read_bytes()


def _rows(end: int) -> Iterator[Row]:
    return (Row(number, b"%d" % number) for number in range(end))


def _rows_cut_off() -> Iterator[Row]:
    yield from _rows(10_000)
    os._exit(1)


def test_pieces_larger_than_a_pipe_come_whole_and_in_order() -> None:
    assert list(SecondProcess(_pieces, 2, 5).pieces()) == list(_pieces(2, 5))


def test_a_process_that_ends_half_way_is_noticed() -> None:
    pieces = SecondProcess(_cut_off, 2, 3).pieces()
    assert next(pieces) == b"2" * 100_000
    with pytest.raises(EOFError):
        next(pieces)


def _killed_within_a_piece() -> Iterator[bytes]:
    kill = partial(os.kill, os.getpid(), signal.SIGKILL)
    threading.Timer(0.2, kill).start()
    yield bytes(50_000_000)


def test_a_process_that_is_killed_within_a_piece_is_noticed() -> None:
    process = SecondProcess(_killed_within_a_piece)
    # Read only after it was killed: what it had sent by then is a part of the piece.
    assert process._ours.poll(30)
    process._process.join()
    with pytest.raises(EOFError):
        next(process.pieces())


def _interrupted(first: int, end: int) -> Iterator[bytes]:
    os.kill(os.getpid(), signal.SIGINT)
    yield from _pieces(first, end)


@pytest.mark.parametrize("is_held", [False, True])
def test_an_interrupt_is_left_to_the_first_process(is_held: bool) -> None:
    """A terminal sends Ctrl+C to both: if the second one ended, the first would report that as a
    failure, and not that it was stopped."""
    pieces = SecondProcess(_interrupted, 2, 5, is_held=is_held).pieces()
    assert list(pieces) == list(_pieces(2, 5))


def test_who_needs_no_more_pieces_waits_for_none() -> None:
    pieces = SecondProcess(_pieces, 2, 5).pieces()
    assert next(pieces) == b"2" * 100_000
    pieces.close()  # type: ignore[attr-defined]


def test_a_held_process_begins_when_its_first_piece_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    process = SecondProcess(_content, path, is_held=True)
    path.write_bytes(b"made meanwhile")
    assert list(process.pieces()) == [b"made meanwhile"]


def test_without_threads_nothing_is_loaded_a_second_time() -> None:
    begin = "known.append(b'loaded'); process = SecondProcess(pieces, is_held=True)"
    assert _output(f"{begin}; print(list(process.pieces()))") == "[b'loaded', b'loaded']"


@pytest.mark.sqlite
def test_an_import_loads_nothing_a_second_time(own_store: Store, tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    path.write_bytes(msgspec.json.encode(order("sn-1")))
    command = ["import", "orders", str(path), "--database", own_store.url, "--json"]
    lines = (
        "import multiprocessing",
        "from tollway.__main__ import main",
        "from tollway.intake import parallel_reading",
        "parallel_reading._LARGE_BYTES = 0",
        "contexts = {'fork': multiprocessing.get_context('fork')}",
        "multiprocessing.get_context = contexts.__getitem__",
        f"main({command})",
    )
    assert msgspec.json.decode(_output("\n".join(lines)))["stored"] == 1


@pytest.mark.parametrize("then", ["", "next(process.pieces());"], ids=["held", "begun"])
def test_a_process_ends_with_the_one_that_began_it(then: str) -> None:
    """It has the output open, which otherwise would not end."""
    begin = "known.append(bytes(1_000_000)); process = SecondProcess(pieces, is_held=True)"
    assert _output(f"{begin}; {then} os._exit(0)") == ""


def _output(program: str) -> str:
    """What a process of its own prints, which has no threads."""
    lines = (
        "import os",
        "from tollway.intake.second_process import SecondProcess",
        "known = []",
        "pieces = lambda: known * 2",
        program,
    )
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=20)
    return done.stdout.strip()


def test_demo_rows_of_a_second_process_are_the_same() -> None:
    assert list(made_aside(Row, partial(_rows, 10_001))) == list(_rows(10_001))


def test_demo_rows_that_end_half_way_are_an_error() -> None:
    rows = made_aside(Row, _rows_cut_off)
    assert next(rows) == Row(0, b"0")
    with pytest.raises(StoreError, match="half-way"):
        list(rows)
