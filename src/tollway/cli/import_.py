"""`tollway import`: loading data from files."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import typer

from tollway.cli.context import Session, run
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence
from tollway.cli.progress import progress_bar
from tollway.intake.coupon_claims import CouponClaims
from tollway.intake.files import read_records
from tollway.intake.loading import CheckedChunk, Loader, LoadResult, checked_chunks, load
from tollway.intake.order_files import order_chunks
from tollway.intake.orders import Orders
from tollway.intake.product_figures import ProductFigures
from tollway.intake.promotion_material import PromotionMaterials

FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A .csv or .jsonl file, or either packed as .gz.", show_default=False
    ),
]
RejectsOption = Annotated[
    Path | None,
    typer.Option(
        help="Where to write the records that are wrong; else FILE.rejected.jsonl.",
        show_default=False,
    ),
]

# What stores the records of a file, and the records.
Loading = tuple[Loader, Iterable[CheckedChunk]]

_commands = typer.Typer(no_args_is_help=True, help="Load data from files.")


def register(commands: typer.Typer) -> None:
    commands.add_typer(_commands, name="import")


@_commands.command("product-figures")
def product_figures(
    file: FileArgument,
    rejects: RejectsOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load products and their daily figures; loading a file again changes nothing."""
    _import(_plain(ProductFigures(), file), file, rejects, database, as_json=as_json)


@_commands.command("orders")
def orders(
    file: FileArgument,
    rejects: RejectsOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load orders; of two versions of one order, the one updated last stays."""

    async def start(at: Session) -> Loading:
        url, key_file = at.settings.database, at.settings.key_file
        return Orders(await at.sealer()), order_chunks(file, url, key_file)

    _import(start, file, rejects, database, as_json=as_json)


@_commands.command("coupon-claims")
def coupon_claims(
    file: FileArgument,
    rejects: RejectsOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load claimed coupons; loading a file again changes nothing."""
    _import(_plain(CouponClaims(), file), file, rejects, database, as_json=as_json)


@_commands.command("promotion-material")
def promotion_material(
    file: FileArgument,
    rejects: RejectsOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load promotion material with its benefits and items; a later record replaces an earlier."""
    _import(_plain(PromotionMaterials(), file), file, rejects, database, as_json=as_json)


def _plain(loader: Loader, file: Path) -> Callable[[Session], Awaitable[Loading]]:
    """Records that are read and checked one after the other, by what stores them."""

    async def start(_: Session) -> Loading:
        return loader, checked_chunks(loader, read_records(file))

    return start


def _import(
    start: Callable[[Session], Awaitable[Loading]],
    file: Path,
    rejects: Path | None,
    database: str | None,
    *,
    as_json: bool,
) -> None:
    rejects_path = rejects or file.with_name(f"{file.name}.rejected.jsonl")
    size = file.stat().st_size if file.is_file() else 0

    async def work(session: Session) -> LoadResult:
        # Those of an earlier load would be taken for this one's.
        rejects_path.unlink(missing_ok=True)
        with ExitStack() as stack:
            aside = RejectFile(rejects_path, stack)
            advance = stack.enter_context(progress_bar(f"Loading {file.name}", size))
            reached = 0

            def progress(_: LoadResult, at_byte: int) -> None:
                nonlocal reached
                advance(at_byte - reached)
                reached = at_byte

            loader, chunks = await start(session)
            return await load(session.database, loader, chunks, aside.write, progress)

    result = run(database, work)
    shown_rejects = str(rejects_path) if result.rejected else None
    if as_json:
        print_json({**msgspec.to_builtins(result), "rejects": shown_rejects})
        return
    print_sentence(
        f"{result.read:,} records read, {result.stored:,} stored "
        f"({result.changed:,} of them new or changed), {result.rejected:,} rejected."
    )
    if result.rejected:
        print_sentence(f"The rejected ones and their reasons are in {shown_rejects}.")


class RejectFile:
    """Opened with the first record that is wrong, so that a clean file leaves none behind."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self._path = path
        self._stack = stack
        self._file: BinaryIO | None = None

    def write(self, reject: msgspec.Struct) -> None:
        if self._file is None:
            self._file = self._stack.enter_context(self._path.open("wb"))
        self._file.write(msgspec.json.encode(reject) + b"\n")
