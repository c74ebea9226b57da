"""`tollway carrier connect` and `disconnect`: the links to carriers that give their numbers
themselves."""

import sys
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
)
from tollway.carriers.connectors.protocols import PROTOCOLS
from tollway.cli.context import Session, run
from tollway.cli.errors import UsageError
from tollway.cli.options import CarrierArgument, DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence

_STDIN = Path("-")

SecretFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The file with the secret that signs messages, - for standard input; else it is "
        "asked for.",
        show_default=False,
    ),
]


class Disconnected(msgspec.Struct, frozen=True):
    """The carrier whose link is gone."""

    wp_code: str


def register(group: typer.Typer) -> None:
    group.command("connect")(connect_carrier)
    group.command("disconnect")(disconnect_carrier)


def connect_carrier(
    carrier: CarrierArgument,
    url: Annotated[
        str, typer.Option(help="Where its messages go: https://HOST/PATH.", show_default=False)
    ],
    provider: Annotated[
        str,
        typer.Option(
            metavar="ID",
            help="The logistic_provider_id that it knows this gateway by.",
            show_default=False,
        ),
    ],
    to_code: Annotated[
        str,
        typer.Option(metavar="CODE", help="The to_code of its messages.", show_default=False),
    ],
    protocol: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="How it is spoken to; installed packages can bring others."
        ),
    ] = CAINIAO_LINK,
    secret_file: SecretFileOption = None,
    deadline_ms: Annotated[
        int,
        typer.Option(min=1, max=DEADLINE_MS_MAX, help="How long it may take to answer."),
    ] = DEADLINE_MS,
    settle_after_s: Annotated[
        int,
        typer.Option(
            min=1,
            max=SETTLE_AFTER_S_MAX,
            help="How old a message must be before it counts as lost if the carrier says so.",
        ),
    ] = SETTLE_AFTER_S,
    plain_http: Annotated[
        bool,
        typer.Option("--plain-http", help="Allow http:// to another machine: nothing is hidden."),
    ] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a carrier give its numbers itself; or change how."""
    PROTOCOLS.named(protocol)
    secret = _read_secret(secret_file)

    async def work(at: Session) -> CarrierLink:
        changed_at_s = at.runtime.at_s()
        link = CarrierLink(
            carrier, url, provider, to_code, deadline_ms, settle_after_s, changed_at_s, protocol
        )
        await connect(at.database, await at.sealer(), link, secret, allows_plain=plain_http)
        return link

    made = run(database, work)
    if as_json:
        print_json(made)
    else:
        print_sentence(
            f"Carrier {made.wp_code} is connected to {made.url} ({made.protocol}) "
            f"and has {made.deadline_ms:,} ms to answer."
        )


def disconnect_carrier(
    carrier: CarrierArgument, database: DatabaseOption = None, as_json: JsonOption = False
) -> None:
    """Remove a carrier's link: its numbers come from the pool again."""
    run(database, lambda at: disconnect(at.database, carrier))
    if as_json:
        print_json(Disconnected(carrier))
    else:
        print_sentence(f"Carrier {carrier} is no longer connected: its numbers are in the pool.")


def _read_secret(file: Path | None) -> str:
    """The secret as the carrier gave it, without the end of its line; never from an argument, which
    other people of the machine could see."""
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
