"""Records that a second process makes: all of them, in order, or a plain error."""

import subprocess
import sys
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path

import msgspec
import pytest

from tests.intake.pieces import (
    Row,
    content_of,
    interrupted,
    killed_within_a_piece,
    pieces,
    pieces_cut_off,
    rows,
    rows_cut_off,
)
from tests.support.orders import order
from tests.support.stores import Store
from tollway.intake.second_process import SecondProcess
from tollway.operations.demo_data import made_in_second_process
from tollway.store.database import StoreError

# No test here has a database but one, which is about a file.
pytestmark = pytest.mark.sqlite


def test_pieces_larger_than_a_pipe_come_whole_and_in_order() -> None:
    assert list(SecondProcess(pieces, 2, 5).pieces()) == list(pieces(2, 5))


def test_a_process_that_ends_half_way_is_noticed() -> None:
    made = SecondProcess(pieces_cut_off, 2, 3).pieces()
    assert next(made) == b"2" * 100_000
    with pytest.raises(EOFError):
        next(made)


def test_a_process_that_is_killed_within_a_piece_is_noticed() -> None:
    process = SecondProcess(killed_within_a_piece)
    # Read only after it was killed: what it had sent by then is a part of the piece.
    assert wait([process._ours], 30)
    process._process.join()
    with pytest.raises(EOFError):
        next(process.pieces())


@pytest.mark.parametrize("is_held", [False, True])
def test_an_interrupt_is_left_to_the_first_process(is_held: bool) -> None:
    """A terminal sends Ctrl+C to both: if the second one ended, the first would report that as a
    failure, and not that it was stopped."""
    made = SecondProcess(interrupted, 2, 5, is_held=is_held).pieces()
    assert list(made) == list(pieces(2, 5))


def test_who_needs_no_more_pieces_waits_for_none() -> None:
    made = SecondProcess(pieces, 2, 5).pieces()
    assert next(made) == b"2" * 100_000
    made.close()  # type: ignore[attr-defined]


def test_a_held_process_begins_when_its_first_piece_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    process = SecondProcess(content_of, path, is_held=True)
    path.write_bytes(b"made meanwhile")
    assert list(process.pieces()) == [b"made meanwhile"]


def test_without_threads_nothing_is_loaded_a_second_time() -> None:
    begin = "known.append(b'loaded'); process = SecondProcess(pieces, is_held=True)"
    assert _output(f"{begin}; print(list(process.pieces()))") == "[b'loaded', b'loaded']"


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
    assert list(made_in_second_process(Row, partial(rows, 10_001))) == list(rows(10_001))


def test_demo_rows_that_end_half_way_are_an_error() -> None:
    made = made_in_second_process(Row, rows_cut_off)
    assert next(made) == Row(0, b"0")
    with pytest.raises(StoreError, match="half-way"):
        list(made)
