"""`tollway carrier`: the carriers that waybills can be issued for, and the links to those that give
their numbers themselves."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tollway.carriers.carrier_links import (
    CAINIAO_LINK,
    DEADLINE_MS,
    DEADLINE_MS_MAX,
    SETTLE_AFTER_S,
    SETTLE_AFTER_S_MAX,
    CarrierLink,
    connect,
    disconnect,
    find_link,
    list_links,
)
from tollway.carriers.carriers import (
    AreaKind,
    ServiceArea,
    add_carrier,
    known_carrier,
    list_carriers,
)
from tollway.carriers.connectors.protocols import PROTOCOLS
from tollway.carriers.pool_levels import known_pools
from tollway.carriers.sorting_codes import Route, RouteError, list_routes, put_routes, read_route
from tollway.cli.command import CommandError, Session, UsageError, add_group, command
from tollway.cli.files import REJECTED_SHOWN, RejectFile, rejects_beside
from tollway.cli.output import Output, Table
from tollway.cli.parameters import CarrierArgument, RejectsOption, argument, option
from tollway.intake.files import read_records
from tollway.intake.raw_records import RawRecord

_STDIN = Path("-")

commands = typer.Typer()
carriers = add_group(commands, "carrier")


class RejectedRoute(msgspec.Struct, frozen=True):
    """A row of a routing table that was not stored, as it was written."""

    line: int
    reason: str
    text: str


@command(carriers, "add")
async def add(
    session: Session,
    carrier: CarrierArgument,
    name: Annotated[str, argument("NAME", "The name on its labels.")],
    number_format: Annotated[
        str | None,
        option(
            "What its numbers look like, or S10; a well-known carrier needs none.",
            "--format",
            metavar="REGEX",
        ),
    ] = None,
    served: Annotated[
        list[str] | None,
        option("Deliver only there; may be repeated.", metavar="PROVINCE"),
    ] = None,
    not_served: Annotated[
        list[str] | None,
        option("Deliver everywhere but there; may be repeated.", metavar="PROVINCE"),
    ] = None,
) -> Output:
    """Add a carrier, or change one."""
    area = _area(served or [], not_served or [])
    database = await session.open()
    added = await add_carrier(database, carrier, name, number_format, area, session.runtime)
    shown = [f"Carrier {added.wp_code} delivers {_shown_area(added.area)}."]
    supplied = {each.wp_code for each in await list_links(database)}
    supplied |= {wp_code for wp_code, _ in await known_pools(database)}
    if added.wp_code not in supplied:
        shown.append(
            f"Next: `tollway pool add {added.wp_code} --file FILE` loads its numbers, or "
            f"`tollway carrier connect {added.wp_code}` has the carrier issue them."
        )
    return Output(added, *shown)


@command(carriers, "list")
async def list_(session: Session) -> Output:
    """List the carriers, and where the numbers of each come from."""
    database = await session.open()
    links = {each.wp_code: each for each in await list_links(database)}
    found = await list_carriers(database)
    table = Table(
        ("carrier", "name", "number format", "delivers", "numbers from"),
        [
            (
                each.wp_code,
                each.name,
                each.number_format,
                _shown_area(each.area),
                _shown_source(links.get(each.wp_code)),
            )
            for each in found
        ],
        empty="There are no carriers: add one with `tollway carrier add`.",
    )
    value = [{**msgspec.structs.asdict(each), "link": links.get(each.wp_code)} for each in found]
    return Output(value, table)


@command(carriers, "routes")
async def routes(
    session: Session,
    carrier: CarrierArgument,
    file: Annotated[
        Path | None,
        argument("FILE", "A .csv, .jsonl, .json or .xlsx file; without it the table is shown."),
    ] = None,
    replace: Annotated[
        bool, option("Remove the rows that are not in the file.", "--replace")
    ] = False,
    rejects: RejectsOption = None,
) -> Output:
    """Show a carrier's routing table, or add the rows of a file to it.

    A row has province, city, district, route_code, consolidation and consolidation_code. Without a
    district it is for all of the city, without a city for all of the province.
    """
    if file is None and (replace or rejects is not None):
        raise UsageError("--replace and --rejects go with a FILE: name it.")
    database = await session.open()
    await known_carrier(database, carrier)
    if file is None:
        return _shown_routes(await list_routes(database, carrier))
    return await _put_routes(session, carrier, file, rejects or rejects_beside(file), replace)


async def _put_routes(
    session: Session, carrier: str, file: Path, rejects_path: Path, replace: bool
) -> Output:
    database = await session.open()
    found: list[Route] = []
    rejected: list[RejectedRoute] = []
    with ExitStack() as stack:
        reject_file = RejectFile(rejects_path, file, stack)
        for record in read_records(file):
            try:
                found.append(_read_route(record))
            except RouteError as error:
                rejected.append(RejectedRoute(record.line, str(error), record.text()))
                reject_file.write(rejected[-1])
    if replace and not found:
        raise CommandError(f"No row of {file} can be used: the table stays as it was.")
    change = await put_routes(database, carrier, found, replace=replace, runtime=session.runtime)
    shown = [
        f"Rows stored: {change.stored:,}, rejected: {len(rejected):,}. "
        f"Carrier {carrier} has {change.in_all:,} in all.",
        *(f"  Line {each.line}: {each.reason}." for each in rejected[:REJECTED_SHOWN]),
    ]
    if reject_file.written:
        shown.append(f"The rejected ones and their reasons are in {reject_file.written}.")
    value = {**msgspec.structs.asdict(change), "rejected": len(rejected)}
    return Output(value, *shown, failure="" if rejected else None)


def _read_route(record: RawRecord) -> Route:
    try:
        values = record.all_values()
    except ValueError as error:
        raise RouteError(str(error).removesuffix(".")) from None
    return read_route(values)


def _shown_routes(found: list[Route]) -> Output:
    table = Table(
        ("province", "city", "district", "route code", "consolidation", "code"),
        [msgspec.structs.astuple(each) for each in found],
        empty="There is no routing table: labels name the receiver's city and district. Give a "
        "file with its rows.",
    )
    return Output(found, table)


_ProtocolOption = Annotated[
    str,
    option(
        "The protocol of its messages; installed packages can bring others.",
        metavar="NAME",
        show_default=True,
    ),
]
_SecretFileOption = Annotated[
    Path | None,
    option(
        "The file with the secret that signs messages, - for standard input; without it, the "
        "command asks.",
        metavar="FILE",
    ),
]
_DeadlineOption = Annotated[
    int, option("How long it may take to answer.", min=1, max=DEADLINE_MS_MAX, show_default=True)
]
_SettleAfterOption = Annotated[
    int,
    option(
        "How old a message must be before it counts as lost if the carrier says so.",
        min=1,
        max=SETTLE_AFTER_S_MAX,
        show_default=True,
    ),
]


@command(carriers, "connect")
async def connect_carrier(
    session: Session,
    carrier: CarrierArgument,
    url: Annotated[str, option("Where its messages go: https://HOST/PATH.")],
    provider: Annotated[
        str,
        option("What the carrier knows this gateway by: the logistic_provider_id.", metavar="ID"),
    ],
    to_code: Annotated[
        str, option("The to_code of its messages; with LINK it can be left out.", metavar="CODE")
    ] = "",
    protocol: _ProtocolOption = CAINIAO_LINK,
    template: Annotated[
        str, option("The address of the label's template at the carrier.", metavar="URL")
    ] = "",
    secret_file: _SecretFileOption = None,
    deadline_ms: _DeadlineOption = DEADLINE_MS,
    settle_after_s: _SettleAfterOption = SETTLE_AFTER_S,
    plain_http: Annotated[
        bool, option("Allow http:// to another machine: nothing is hidden.", "--plain-http")
    ] = False,
) -> Output:
    """Connect a carrier that issues its numbers itself, or change its connection."""
    PROTOCOLS.named(protocol)
    secret, at_s = _read_secret(secret_file), session.runtime.at_s()
    link = CarrierLink(
        carrier, url, provider, to_code, deadline_ms, settle_after_s, at_s, protocol, template
    )
    database, sealer = await session.open(), await session.sealer()
    await connect(database, sealer, link, secret, allows_plain=plain_http, runtime=session.runtime)
    return Output(
        link,
        f"Carrier {carrier} is connected to {url} ({protocol}) "
        f"and has {deadline_ms:,} ms to answer.",
    )


@command(carriers, "subscriptions")
async def show_subscriptions(session: Session, carrier: CarrierArgument) -> Output:
    """Ask the LINK gateway which branches issue numbers, how many, and from which addresses."""
    from tollway.carriers.connectors.cainiao_link import CainiaoConnector
    from tollway.carriers.connectors.connector import ConnectorError
    from tollway.carriers.connectors.http_exchange import open_client

    database = await session.open()
    known = await known_carrier(database, carrier)
    opened = await find_link(database, await session.sealer(), carrier)
    if opened is None or opened.link.protocol != CAINIAO_LINK:
        raise CommandError(f"Carrier {carrier} is not connected with {CAINIAO_LINK}.")
    async with open_client() as client:
        try:
            found = await CainiaoConnector(client, known, opened).subscriptions()
        except ConnectorError as error:
            raise CommandError(f"Carrier {carrier} did not say: {error}") from None
    table = Table(
        ("branch", "left", "allocated", "cancelled", "printed", "picks up at"),
        [
            (
                each.branch_code,
                each.quantity,
                each.allocated,
                each.cancelled,
                each.printed,
                "; ".join(each.addresses),
            )
            for each in found
        ],
        empty="No branch issues numbers for this merchant.",
    )
    return Output(found, table)


@command(carriers, "disconnect")
async def disconnect_carrier(session: Session, carrier: CarrierArgument) -> Output:
    """Remove a carrier's link: its numbers come from the pool again."""
    database = await session.open()
    await known_carrier(database, carrier)
    await disconnect(database, carrier, session.runtime)
    return Output(
        {"wp_code": carrier},
        f"Carrier {carrier} is no longer connected: its numbers are in the pool.",
    )


def _area(served: list[str], not_served: list[str]) -> ServiceArea:
    if served and not_served:
        raise UsageError("Say either where the carrier delivers or where it does not, not both.")
    if served:
        return ServiceArea(AreaKind.ONLY, tuple(served))
    return ServiceArea(AreaKind.EXCEPT if not_served else AreaKind.ALL, tuple(not_served))


def _shown_source(link: CarrierLink | None) -> str:
    if link is None:
        return "pool"
    is_installed = link.protocol in PROTOCOLS.names
    return f"{link.url} ({link.protocol}{'' if is_installed else ', not installed'})"


def _shown_area(area: ServiceArea) -> str:
    if area.kind is AreaKind.ALL:
        return "everywhere"
    listed = ", ".join(area.provinces)
    return f"only to {listed}" if area.kind is AreaKind.ONLY else f"everywhere but to {listed}"


def _read_secret(file: Path | None) -> str:
    """The secret as the carrier gave it, without the end of its line; arguments can be read by
    other users of the machine."""
    if file is None:
        if not sys.stdin.isatty():
            raise UsageError("There is no terminal to ask for the secret: use --secret-file.")
        secret: str = typer.prompt("Secret", hide_input=True, err=True, type=str)
        return secret
    raw = sys.stdin.buffer.read() if file == _STDIN else file.read_bytes()
    try:
        return raw.decode().strip("\r\n")
    except UnicodeDecodeError:
        raise UsageError("The secret is not a text in UTF-8.") from None
