"""Tables for people: aligned whatever is in them, and no wider than the terminal."""

import fcntl
import os
import pty
import re
import struct
import termios
import unicodedata
from dataclasses import fields
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.support.forks import Fork
from tests.support.stores import Store
from tollway.settings import Settings

pytestmark = pytest.mark.sqlite


def cells(text: str) -> int:
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)


def on_terminal(columns: int, *arguments: str, stream: str = "stdout") -> str:
    """What a command prints to this stream on a terminal of this width."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment["TERM"] = "xterm"
    with open(its, "wb", buffering=0) as terminal:  # noqa: PTH123
        stdout, stderr = (terminal, None) if stream == "stdout" else (None, terminal)
        command = Fork("tollway", *arguments, env=environment, stdout=stdout, stderr=stderr)
    printed = b""
    try:
        while chunk := os.read(ours, 65_536):
            printed += chunk
    except OSError:
        # So does Linux say that the other end is closed.
        pass
    assert command.wait() == 0
    os.close(ours)
    if command.stdout is not None:
        command.stdout.close()
    return printed.decode().replace("\r\n", "\n")


def test_columns_are_aligned_also_with_chinese_characters_and_numbers(
    tollway: Command, ledger_store: Store
) -> None:
    tollway("carrier", "add", "YTO", "圆通速递")
    tollway("carrier", "add", "EMS", "Mail 邮")
    heading, rule, *rows = tollway("carrier", "list").out.splitlines()
    assert set(rule) == {"─"}
    assert len(rows) == 2
    for row in rows:
        assert cells(row[: row.index("everywhere")]) == heading.index("delivers"), row
    tollway("account", "open", "acme")
    tollway("credit", "add", "acme", "5")
    tollway("credit", "add", "acme", "12000")
    lines = tollway("ledger", "show", "acme").out.splitlines()
    ends = {re.search(r"amount|12,000(?=  )|\b5\b", lines[n]).end() for n in (0, 2, 3)}  # type: ignore[union-attr]
    assert len(ends) == 1
    assert lines[-1] == "times in Asia/Shanghai"


def test_a_table_is_folded_to_a_narrow_terminal_and_nothing_is_lost(ledger_store: Store) -> None:
    printed = on_terminal(60, "settings")
    assert printed.startswith("\x1b[1msetting")
    heading, rule, *rows = re.sub(r"\x1b\[\d*m", "", printed).splitlines()
    assert max(map(cells, (heading, rule, *rows))) <= 60
    shown = "".join(row[heading.index("meaning") :] for row in rows)
    meanings = "".join(setting.metadata["meaning"] for setting in fields(Settings))
    assert shown.replace(" ", "") == meanings.replace(" ", "")


def test_a_terminal_that_is_wide_enough_shows_what_a_pipe_gets(
    tollway: Command, ledger_store: Store
) -> None:
    shown = re.sub(r"\x1b\[\d*m", "", on_terminal(400, "settings"))
    assert shown == tollway("settings").out


def test_how_far_a_load_is_has_units_and_names_the_file_as_it_is(
    ledger_store: Store, workplace: Path
) -> None:
    record = '{"kind": "product", "product_id": "1", "title": "a", "shop_name": "b"}\n'
    (workplace / "[red]\x07figures.jsonl").write_text(50 * record, encoding="utf-8")
    shown = on_terminal(100, "import", "product-figures", "[red]\x07figures.jsonl", stream="stderr")
    assert "Loading [red]\N{REPLACEMENT CHARACTER}figures.jsonl" in shown
    assert "100% 3.5/3.5 kB" in re.sub(r"\x1b\[[\d;?]*\w", "", shown)
