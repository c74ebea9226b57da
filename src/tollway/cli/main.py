"""The list of all commands; each is loaded when it is called."""

from typing import Annotated

import typer

from tollway import __version__
from tollway.cli.lazy import Entry, lazy_group

# Under the headings, and in the order, in which `tollway --help` lists them.
_COMMANDS = {
    "The gateway": {
        "serve": Entry("serve", "Serve the paid operations until stopped (Ctrl+C)."),
        "demo": Entry(
            "serve", "Fill a database with a demo world, once, and print what is needed to try it."
        ),
        "settings": Entry(
            "database", "Show every setting, where its value came from and what it means."
        ),
        "mcp": Entry("mcp", "Give an agent the operations of a gateway as tools, over stdio."),
    },
    "Operators": {
        "operator": Entry("operator", "Invite, list and remove those who run the gateway."),
        "second-factor": Entry(
            "operator", "List who is asked for a code at sign-in, and reset a lost one."
        ),
        "trail": Entry("trail", "Show what operators did, each with what was before and after."),
    },
    "Accounts and money": {
        "account": Entry("account", "Open, list, show and close accounts."),
        "permission": Entry("permission", "Say which account may call which operation."),
        "credit": Entry(
            "permission", "Add credits, or calls of an operation; correct a balance; refund a call."
        ),
        "token": Entry("token", "Issue, list and revoke access tokens."),
        "client": Entry(
            "token", "Add, list and revoke clients, which obtain tokens at /oauth/token."
        ),
        "operation": Entry("permission", "List, open and close operations."),
        "price": Entry("permission", "List and set the list prices."),
        "ledger": Entry("ledger", "Show and export entries, and make the statements of a month."),
        "receipt": Entry(
            "ledger", "Show what one call was answered, what it was charged, and why."
        ),
    },
    "Shops and their consent": {
        "shop": Entry(
            "consent", "Add and list shops and users, set their passwords, erase receivers."
        ),
        "consent": Entry("consent", "List, grant and revoke the consents of shops and users."),
    },
    "Data": {
        "import": Entry("intake", "Load data from files."),
        "source": Entry("intake", "Add and list the sources that push records."),
        "intake": Entry("intake", "List rejected records of pushes, and try them again."),
        "records": Entry("intake", "Prepare stored records for answers again, after an upgrade."),
    },
    "Carriers and waybills": {
        "carrier": Entry("carrier", "Add, connect and list carriers."),
        "pool": Entry("pool", "Load and count waybill numbers."),
        "waybill": Entry("waybill", "List, show, print and cancel waybills."),
        "reconcile": Entry(
            "reconcile", "Ask the carriers about waybills without an answer, and settle them."
        ),
        "hold": Entry("reconcile", "Show credits that are held."),
    },
    "The database": {
        "migrate": Entry("database", "Create the database, or bring its schema up to date."),
        "backup": Entry("backup", "Copy the database to a file, also while a gateway serves it."),
        "restore": Entry("restore", "Check a backup in full, and make it the database."),
        "move": Entry(
            "move", "Move a database to PostgreSQL; if interrupted, run it again to continue."
        ),
        "keys": Entry("database", "Rotate the keys, or accept another key file or secret file."),
        "retention": Entry("database", "Delete what is older than the settings say."),
        "audit": Entry("audit", "Check the ledger, consents, waybills and counts from their rows."),
    },
}


app = typer.Typer(
    cls=lazy_group(_COMMANDS),
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
