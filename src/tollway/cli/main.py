"""The list of all commands; each is loaded when it is called."""

from typing import Annotated

import typer

from tollway import __version__
from tollway.cli.lazy import Entry, lazy_group

# In the order in which `tollway --help` lists them.
_ENTRIES = {
    "serve": Entry("serve", "Serve the paid operations until stopped (Ctrl+C)."),
    "demo": Entry(
        "serve", "Fill a database with a demo world, once, and print what is needed to try it."
    ),
    "operator": Entry("operator", "Invite, list and remove those who run the gateway."),
    "second-factor": Entry(
        "operator", "List who is asked for a code at sign-in, and reset a lost one."
    ),
    "account": Entry("account", "Open, list, show and close accounts."),
    "token": Entry("token", "Issue, list and revoke access tokens."),
    "client": Entry("token", "Add, list and revoke clients, which obtain tokens at /oauth/token."),
    "credit": Entry("permission", "Add credits, or calls of an operation."),
    "permission": Entry("permission", "Say which account may call which operation."),
    "shop": Entry("consent", "Add and list the shops and users whose data callers ask for."),
    "consent": Entry("consent", "List, give and revoke the consents of shops and users."),
    "operation": Entry("permission", "List, open and close operations."),
    "price": Entry("permission", "List and set the common prices."),
    "ledger": Entry("ledger", "Show and export the ledger."),
    "receipt": Entry("ledger", "Show what one call was answered, what it was charged, and why."),
    "import": Entry("intake", "Load data from files."),
    "records": Entry("intake", "Look after the records that are kept ready to be answered."),
    "carrier": Entry("carrier", "Add, connect and list carriers."),
    "pool": Entry("pool", "Load and count waybill numbers."),
    "waybill": Entry("waybill", "List, show, print and cancel waybills."),
    "reconcile": Entry(
        "reconcile", "Ask the carriers about waybills without an answer, and settle them."
    ),
    "hold": Entry("reconcile", "Show credits that are held."),
    "source": Entry("intake", "Add and list the sources that push records."),
    "intake": Entry("intake", "Look after what was pushed."),
    "migrate": Entry("database", "Create the database, or bring its schema up to date."),
    "backup": Entry("backup", "Copy the database to a file while it goes on being used."),
    "restore": Entry("restore", "Check a backup in full, and make it the database."),
    "move": Entry(
        "move", "Move a database to PostgreSQL; broken off, it goes on where it was when run again."
    ),
    "keys": Entry("database", "Go over to new keys, or say which ones a database is used with."),
    "retention": Entry("database", "Drop what is older than the settings say."),
    "trail": Entry("trail", "Show what operators did, each with what was before and after."),
    "audit": Entry("audit", "Check the ledger, consents, waybills and counts from their rows."),
    "mcp": Entry("mcp", "Give an agent the operations of a gateway as tools, over stdio."),
    "settings": Entry(
        "database", "Show every setting, where its value came from and what it means."
    ),
}


app = typer.Typer(
    cls=lazy_group(_ENTRIES),
    help="Tollway: a self-hosted, paid gateway for merchant data and tools.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"tollway {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Has the options of `tollway` itself."""
