"""`tollway client`: programs that obtain their tokens themselves."""

from typing import Annotated

import typer

from tollway.cli.context import Session, run
from tollway.cli.options import AccountArgument, DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table, shown_time
from tollway.ledger.clients import Client, add_client, list_clients, revoke_client

group = typer.Typer(
    help="Add, list and revoke clients, which obtain tokens at /oauth/token.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="client")


@group.command("add")
def add(
    account: AccountArgument,
    is_test: Annotated[
        bool, typer.Option("--test", help="Its tokens are sandbox tokens: nothing charged.")
    ] = False,
    label: Annotated[str, typer.Option(help="What the client is for.", show_default=False)] = "",
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a client. Its secret is shown this once; only a hash of it is kept."""
    kind = "test" if is_test else "live"
    added = run(
        database, lambda at: add_client(at.database, at.runtime, account, kind=kind, label=label)
    )
    if as_json:
        print_json(added)
        return
    print_sentence(f"client_id={added.client_id}")
    print_sentence(f"client_secret={added.client_secret}")
    print_sentence("Keep the secret now, it is not shown again.")


@group.command("list")
def list_(
    account: AccountArgument, database: DatabaseOption = None, as_json: JsonOption = False
) -> None:
    """List an account's clients, the oldest first."""

    async def work(at: Session) -> tuple[Session, list[Client]]:
        return at, await list_clients(at.database, account)

    at, clients = run(database, work)
    if as_json:
        print_json(clients)
        return
    zone = at.settings.zone
    print_table(
        ("client", "kind", "secret starts with", "label", "state", "added"),
        [
            (
                client.id,
                client.kind,
                client.start,
                client.label or None,
                "valid" if client.revoked_at_s is None else "revoked",
                shown_time(client.added_at_s, zone),
            )
            for client in clients
        ],
        empty="It has no clients: `tollway client add ACCOUNT` adds one.",
        times_in=zone,
    )


@group.command("revoke")
def revoke(
    client: Annotated[
        str,
        typer.Argument(
            metavar="CLIENT", help="The client's id, or its secret.", show_default=False
        ),
    ],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke a client: it gets no more tokens, and those it has are refused."""
    revoked = run(database, lambda at: revoke_client(at.database, at.runtime, client))
    if as_json:
        print_json(revoked)
    else:
        print_sentence(
            f"Client {revoked.id} is revoked: its tokens are refused from the next call on."
        )
