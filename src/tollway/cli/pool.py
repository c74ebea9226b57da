"""`tollway pool`: the waybill numbers that carriers gave out to be used."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tollway.carriers.pools import SHARED, PoolLoad, Rejected, add_numbers, list_pools
from tollway.cli.context import Session, run
from tollway.cli.errors import UsageError
from tollway.cli.import_ import RejectFile, RejectsOption
from tollway.cli.options import CarrierArgument, DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table
from tollway.cli.progress import progress_bar

group = typer.Typer(help="Load and count waybill numbers.", no_args_is_help=True)

# Of many, these tell what is wrong; all of them are in the file of rejects.
_TOLD_MAX = 10


class PoolChange(msgspec.Struct, frozen=True):
    """What loading came to; `reasons` are the first of the rejected, `rejects` the file of all."""

    wp_code: str
    owner_id: str | None
    read: int
    loaded: int
    rejected: int
    reasons: list[Rejected]
    rejects: str | None


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="pool")


@group.command("add")
def add(
    carrier: CarrierArgument,
    shop: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER_ID",
            help="The shop that the numbers are for; without this, all shops.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="A text file with one number per line.", show_default=False),
    ] = None,
    numbers: Annotated[
        str | None,
        typer.Option(help="The numbers themselves, separated by commas.", show_default=False),
    ] = None,
    rejects: RejectsOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load numbers; those that do not fit the carrier or were loaded before are rejected."""
    if (file is None) == (numbers is None):
        raise UsageError("Give the numbers either in a --file or with --numbers.")
    rejects_path = rejects or (file and file.with_name(f"{file.name}.rejected.jsonl"))
    told: list[Rejected] = []

    async def work(at: Session) -> PoolLoad:
        with ExitStack() as stack:
            aside = RejectFile(rejects_path, stack) if rejects_path else None
            size = file.stat().st_size if file else 0
            advance = stack.enter_context(progress_bar(f"Loading numbers of {carrier}", size))

            def set_aside(rejected: Rejected) -> None:
                if len(told) < _TOLD_MAX:
                    told.append(rejected)
                if aside is not None:
                    aside.write(rejected)

            texts = _lines(file, advance) if file else _listed(numbers or "")
            return await add_numbers(at.database, carrier, shop or SHARED, texts, set_aside)

    result = run(database, work)
    written = str(rejects_path) if rejects_path and result.rejected else None
    change = PoolChange(carrier, shop, result.read, result.loaded, result.rejected, told, written)
    if as_json:
        print_json(change)
    else:
        _print_change(change)


@group.command("list")
def list_(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the pools, and how many numbers each has left."""
    pools = run(database, lambda at: list_pools(at.database))
    if as_json:
        print_json(pools)
    else:
        print_table(
            ("carrier", "shop", "left", "taken"),
            [(each.wp_code, each.owner_id or "all", each.left, each.taken) for each in pools],
            empty="There are no numbers: load some with `tollway pool add`.",
        )


def _lines(file: Path, advance: Callable[[int], None]) -> Iterator[str]:
    """The numbers of a file; what is no text is passed on, to be rejected with its line."""
    with file.open("rb") as opened:
        for raw in opened:
            advance(len(raw))
            number = raw.decode("utf-8-sig", errors="replace").strip()
            if number:
                yield number


def _listed(numbers: str) -> list[str]:
    return [number.strip() for number in numbers.split(",") if number.strip()]


def _print_change(change: PoolChange) -> None:
    print_sentence(
        f"{change.read:,} numbers read, {change.loaded:,} loaded, {change.rejected:,} rejected."
    )
    for each in change.reasons:
        print_sentence(f"  {each.number}: {each.reason}.")
    if change.rejected > len(change.reasons):
        print_sentence(f"  and {change.rejected - len(change.reasons):,} more.")
    if change.rejects:
        print_sentence(f"The rejected ones and their reasons are in {change.rejects}.")
