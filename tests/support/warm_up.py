"""What every fork of the loaded process would otherwise load and compile for itself.

A gateway loads its pages, and compiles a query or a template, when it first needs them. That is
right for one that runs for months, and most of the time of one that a test starts.
"""

import ctypes
import gc
import io
import sys
import typing
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any
from zoneinfo import ZoneInfo

import httpx2
from jinja2 import Environment

from tests.support.authorities import load_authorities_once
from tests.support.commands import all_commands
from tests.support.known_types import know_types
from tests.support.passwords import use_cheap_passwords
from tollway.__main__ import main
from tollway.gateway import openapi
from tollway.operations.account_api import ACCOUNT_OPERATIONS
from tollway.operations.catalogue import ALL_OPERATIONS, ALL_TABLES
from tollway.pipeline import decode
from tollway.store.key_check import has_rows
from tollway.store.key_file import KEY_BYTES
from tollway.store.query import JointQuery, Query
from tollway.store.schema import sealed_tables
from tollway.store.sealing import Sealer
from tollway.store.sqlite.schema_check import schema_parts
from tollway.web.pages import Web

# What a gateway or a command loads when it first needs it, but not what only a few need: every fork
# pays for the memory of all of it. Nothing here may start a thread, as numpy under openpyxl does.
_LATE = (
    "encodings.idna",
    "multiprocessing.popen_fork",
    "multiprocessing.sharedctypes",
    "tollway.demo.fakes.carrier.server",
    "tollway.demo.fakes.link.gateway",
    "tollway.gateway.supervisor",
    "tollway.gateway.site",
    "tollway.gateway.worker",
    "tollway.store.postgresql.replica",
)
_ZONE = ZoneInfo("Asia/Shanghai")
_filling: list[object] = []
_LARGE = 2 * 2**20
_MADV_COLLAPSE = 25


def warm_up(folder: str) -> None:
    """Loads all commands and runs a few, so that what they load is there for every fork."""
    all_commands()
    use_cheap_passwords()
    load_authorities_once()
    know_types()
    httpx2.create_ssl_context(trust_env=False)
    for module in _LATE:
        import_module(module)
    # The values of most options are read by a library that is loaded with the first of them.
    for command in ("migrate", "account list", "waybill list --limit 1", "settings"):
        arguments = [*command.split(), "--database", f"sqlite:///{folder}/warm.db"]
        with redirect_stdout(io.StringIO()), suppress(SystemExit):
            main(arguments)
    # It is run as a program in every fork, and runpy warns of one that is loaded already.
    del sys.modules["tollway.__main__"]
    _make_decoders()
    schema_parts()
    # A gateway that finds no keys asks whether any are needed.
    has_rows(sealed_tables(ALL_TABLES))
    _compile_queries()
    _compile_templates()
    _describe_operations()
    # OpenSSL prepares a cipher when it is first used.
    Sealer({1: bytes(KEY_BYTES)}, 1).seal(b"", b"")
    # Every fork would empty these when it ends, and so copy them.
    for empty in typing._cleanups:  # type: ignore[attr-defined]
        empty()
    # What is loaded stays: no fork need look at it again, nor copy it for that.
    gc.collect()
    _filling.extend(_fill_holes())
    gc.freeze()
    _use_large_pages()


def _fill_holes() -> Iterator[object]:
    """Takes the memory that is free between what is loaded: what a fork makes would be put there,
    and each page be copied for it. Most holes are small."""
    yield from (object() for _ in range(2_000))
    yield from map(float, range(2_000))
    smallest, largest, overhead = 48, 512, sys.getsizeof(b"")
    for size in range(smallest, largest + 1, 16):
        free = 500_000 if size <= 64 else 60_000
        yield from (bytes(size - overhead) for _ in range(free // size))


def _use_large_pages() -> None:
    """Has the kernel keep what is loaded in large pages: a fork then copies a table of hundreds,
    and not of ten thousands. Where it cannot, pages stay as they are."""
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        span, rights, _, _, _, *name = line.split()
        begin, end = (int(each, 16) for each in span.split("-"))
        begin, end = -(-begin // _LARGE) * _LARGE, end // _LARGE * _LARGE
        if rights == "rw-p" and name in ([], ["[heap]"]):
            # One by one: it does not go on after one that it cannot put together.
            for large in range(begin, end, _LARGE):
                madvise(large, _LARGE, _MADV_COLLAPSE)


def _make_decoders() -> None:
    """Every gateway makes one for each operation, each time the same."""
    decode.Decoder = cache(decode.Decoder)  # type: ignore[attr-defined]
    for operations in (ALL_OPERATIONS, ACCOUNT_OPERATIONS):
        decode.Decode(operations, _ZONE)


def _compile_queries() -> None:
    """Each keeps its text in either dialect."""
    # Commands freeze what they load, and what is frozen is not found.
    gc.unfreeze()
    for query in gc.get_objects():
        if isinstance(query, Query):
            _ = query.sqlite, query.postgresql
        if isinstance(query, JointQuery):
            _ = query.together_postgresql


def _compile_templates() -> None:
    """Every gateway has an environment of its own, with the same templates in it."""
    compile_ = Environment.compile
    kept: dict[tuple[object, ...], CodeType] = {}

    def compile_once(self: Environment, source: Any, *names: Any, **options: Any) -> Any:
        key = (source, names, *options.items(), self.autoescape, self.trim_blocks)
        if key not in kept:
            kept[key] = compile_(self, source, *names, **options)
        return kept[key]

    Environment.compile = compile_once  # type: ignore[assignment, method-assign]
    templates = Web(sessions=None, zone=_ZONE)._templates  # type: ignore[arg-type]
    for name in templates.list_templates():
        templates.get_template(name)


def _describe_operations() -> None:
    """A gateway describes all of them before it shows its first page, each time the same."""
    describe = openapi.describe_operation
    kept: dict[tuple[object, ...], Any] = {}

    def describe_once(operation: Any, payload: Any, dry_run: Any, mapped: bool) -> Any:
        key = (id(operation), str(payload), str(dry_run), mapped)
        if key not in kept:
            kept[key] = describe(operation, payload, dry_run, mapped)
        return kept[key]

    openapi.describe_operation = describe_once
    for mapped in (False, True):
        openapi.openapi(ALL_OPERATIONS, "", mapped=mapped)
