"""Records that a second process makes: all of them, in order, or a plain error."""

import os
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest

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


def test_who_needs_no_more_pieces_waits_for_none() -> None:
    pieces = SecondProcess(_pieces, 2, 5).pieces()
    assert next(pieces) == b"2" * 100_000
    pieces.close()  # type: ignore[attr-defined]


def test_demo_rows_of_a_second_process_are_the_same() -> None:
    assert list(made_aside(Row, partial(_rows, 10_001))) == list(_rows(10_001))


def test_demo_rows_that_end_half_way_are_an_error() -> None:
    rows = made_aside(Row, _rows_cut_off)
    assert next(rows) == Row(0, b"0")
    with pytest.raises(StoreError, match="half-way"):
        list(rows)
