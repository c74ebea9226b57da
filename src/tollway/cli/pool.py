"""`tollway pool`: the waybill numbers that carriers gave out to be used."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tollway.carriers.carriers import known_carrier
from tollway.carriers.pools import (
    SHARED,
    Rejected,
    add_numbers,
    count_up_to,
    list_pools,
    remove_up_to,
)
from tollway.cli.command import Session, UsageError, add_group, command, confirm
from tollway.cli.files import REJECTED_SHOWN, RejectFile, rejects_beside
from tollway.cli.output import Output, Table, counted, progress_bar
from tollway.cli.parameters import CarrierArgument, RejectsOption, YesOption, option
from tollway.consent.owners import find_owner
from tollway.contract.operation import OwnerKind

commands = typer.Typer()
pools = add_group(commands, "pool")


class RejectedNumber(msgspec.Struct, frozen=True):
    """A number that was not loaded; `position` counts from 1."""

    position: int
    number: str
    reason: str


class PoolChange(msgspec.Struct, frozen=True):
    """What loading came to; `reasons` are the first of the rejected, `rejects` the file of all."""

    wp_code: str
    owner_id: str | None
    read: int
    loaded: int
    rejected: int
    reasons: list[RejectedNumber]
    rejects: str | None


ShopOption = Annotated[
    str | None,
    option("The shop that the numbers are for; without it, all shops.", metavar="OWNER_ID"),
]


@command(pools, "add")
async def add(
    session: Session,
    carrier: CarrierArgument,
    shop: ShopOption = None,
    file: Annotated[Path | None, option("A text file with one number per line.")] = None,
    numbers: Annotated[str | None, option("The numbers themselves, separated by commas.")] = None,
    rejects: RejectsOption = None,
) -> Output:
    """Load numbers; those that do not fit the carrier or were loaded before are rejected."""
    if (file is None) == (numbers is None):
        raise UsageError("Give the numbers either in a --file or with --numbers.")
    rejects_path = rejects or (rejects_beside(file) if file else None)
    reasons: list[RejectedNumber] = []
    database = await session.open()
    if shop is not None:
        # Numbers for an unknown shop could never be used, nor loaded again for another shop.
        await find_owner(database, OwnerKind.SHOP, shop)
    with ExitStack() as stack:
        reject_file = RejectFile(rejects_path, file, stack) if rejects_path else None
        size = file.stat().st_size if file else 0
        advance = stack.enter_context(
            progress_bar(f"Loading numbers of {carrier}", size, is_bytes=True)
        )

        def on_reject(rejected: Rejected) -> None:
            shown = RejectedNumber(rejected.position, rejected.number, str(rejected.reason))
            if len(reasons) < REJECTED_SHOWN:
                reasons.append(shown)
            if reject_file is not None:
                reject_file.write(shown)

        listed = map(str.strip, (numbers or "").split(","))
        texts = _lines(file, advance) if file else filter(None, listed)
        result = await add_numbers(
            database, carrier, shop or SHARED, texts, on_reject, runtime=session.runtime
        )
    written = reject_file.written if reject_file else None
    change = PoolChange(
        carrier, shop, result.read, result.loaded, result.rejected, reasons, written
    )
    return Output(change, *_shown(change), failure="" if result.rejected else None)


@command(pools, "list")
async def list_(session: Session) -> Output:
    """List the pools, and how many numbers each has left."""
    found = await list_pools(await session.open())
    table = Table(
        ("carrier", "shop", "left", "taken"),
        [(each.wp_code, each.owner_id or "all", each.left, each.taken) for each in found],
        empty="There are no numbers: load some with `tollway pool add`.",
    )
    return Output(found, table)


@command(pools, "remove")
async def remove(
    session: Session,
    carrier: CarrierArgument,
    up_to: Annotated[
        str, option("The last number to remove; those before it go too.", metavar="NUMBER")
    ],
    shop: ShopOption = None,
    yes: YesOption = False,
) -> Output:
    """Remove numbers that were never issued here, from the next one on.

    For numbers that must not be issued: after a restore, those that were issued since the backup.
    """
    database, owner_id = await session.open(), shop or SHARED
    await known_carrier(database, carrier)
    if shop is not None:
        await find_owner(database, OwnerKind.SHOP, shop)
    if not yes and (count := await count_up_to(database, carrier, owner_id, up_to)):
        confirm(f"Remove {counted(count, 'number')} of {carrier}, up to {up_to}?")
    removed = await remove_up_to(database, carrier, owner_id, up_to, session.runtime)
    return Output(
        {"wp_code": carrier, "owner_id": shop, "up_to": up_to, "removed": removed},
        f"{counted(removed, 'number')} of {carrier} removed, up to {up_to}.",
    )


def _lines(file: Path, advance: Callable[[int], None]) -> Iterator[str]:
    """The numbers of a file; what is no text is passed on, to be rejected with its line."""
    with file.open("rb") as opened:
        for raw in opened:
            advance(len(raw))
            number = raw.decode("utf-8-sig", errors="replace").strip()
            if number:
                yield number


def _shown(change: PoolChange) -> Iterator[str]:
    read = counted(change.read, "number")
    yield f"{read} read, {change.loaded:,} loaded, {change.rejected:,} rejected."
    for each in change.reasons:
        yield f"  {each.number}: {each.reason}."
    if change.rejected > len(change.reasons):
        yield f"  and {change.rejected - len(change.reasons):,} more."
    if change.rejects:
        yield f"The rejected ones and their reasons are in {change.rejects}."
