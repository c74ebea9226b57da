"""`tollway token` and `tollway client`: what callers identify themselves with."""

from typing import Annotated

import typer

from tollway.cli.account import table_of_tokens
from tollway.cli.command import Session, add_group, command
from tollway.cli.output import Output, Table, Time
from tollway.cli.parameters import DAY_S, DAYS_MAX, AccountArgument, argument, option
from tollway.ledger.accounts import find_account
from tollway.ledger.clients import add_client, list_clients, revoke_client
from tollway.ledger.entries import AMOUNT_MAX
from tollway.ledger.token_limits import read_limits
from tollway.ledger.tokens import issue_token, list_tokens, revoke_token
from tollway.operations.catalogue import BY_NAME

commands = typer.Typer()
tokens = add_group(commands, "token")
clients = add_group(commands, "client")


@command(tokens, "issue")
async def issue(
    session: Session,
    account: AccountArgument,
    is_test: Annotated[
        bool, option("A sandbox token: demo data, nothing charged.", "--test")
    ] = False,
    label: Annotated[str, option("What the token is for.")] = "",
    expires_days: Annotated[
        int | None,
        option("After how many days it expires; without it, never.", min=1, max=DAYS_MAX),
    ] = None,
    operation: Annotated[
        list[str] | None,
        option("An operation it is for, or account for the account API; may be repeated."),
    ] = None,
    address: Annotated[
        list[str] | None,
        option(
            "An address or network it may be used from; may be repeated.", "--from", metavar="CIDR"
        ),
    ] = None,
    credits_per_day: Annotated[
        int | None, option("How many credits it may spend in a day.", min=0, max=AMOUNT_MAX)
    ] = None,
    calls_per_day: Annotated[
        int | None, option("How many calls may succeed in a day.", min=0, max=AMOUNT_MAX)
    ] = None,
) -> Output:
    """Issue a token. Its text is shown this once; only a hash of it is kept."""
    issued = await issue_token(
        await session.open(),
        session.runtime,
        account,
        kind="test" if is_test else "live",
        label=label,
        lifetime_s=None if expires_days is None else expires_days * DAY_S,
        limits=read_limits(
            operation or (), address or (), credits_per_day, calls_per_day, known=list(BY_NAME)
        ),
    )
    expiry = session.local_time(issued.token.expires_at_s)
    expires = "it does not expire" if expiry is None else f"it expires {expiry}"
    return Output(
        issued,
        issued.text,
        f"Keep it now, it is not shown again. Its id is {issued.token.id}; {expires}.",
        *([f"It is limited to {limits}."] if (limits := issued.token.limits.in_words()) else []),
    )


@command(tokens, "list")
async def list_(session: Session, account: AccountArgument) -> Output:
    """List an account's tokens, the oldest first."""
    database = await session.open()
    owner = await find_account(database, account)
    found = await list_tokens(database, owner.id)
    return Output(found, table_of_tokens(found, session.runtime.at_s(), owner))


@command(tokens, "revoke")
async def revoke(
    session: Session, token: Annotated[str, argument("TOKEN", "The token's id, or its text.")]
) -> Output:
    """Revoke a token: it is refused from the next call on."""
    revoked = await revoke_token(await session.open(), session.runtime, token)
    return Output(revoked, f"Token {revoked.id} is revoked: it is refused from the next call on.")


@command(clients, "add")
async def add_client_(
    session: Session,
    account: AccountArgument,
    is_test: Annotated[
        bool, option("Its tokens are sandbox tokens: nothing charged.", "--test")
    ] = False,
    label: Annotated[str, option("What the client is for.")] = "",
) -> Output:
    """Add a client. Its secret is shown this once; only a hash of it is kept."""
    kind = "test" if is_test else "live"
    added = await add_client(await session.open(), session.runtime, account, kind=kind, label=label)
    return Output(
        added,
        f"client_id={added.client_id}",
        f"client_secret={added.client_secret}",
        "Keep the secret now, it is not shown again.",
    )


@command(clients, "list")
async def list_clients_(session: Session, account: AccountArgument) -> Output:
    """List an account's clients, the oldest first."""
    database = await session.open()
    owner = await find_account(database, account)
    found = await list_clients(database, owner.id)
    working = "valid" if owner.closed_at_s is None else "closed"
    table = Table(
        ("client", "kind", "secret starts with", "label", "state", "added"),
        [
            (
                each.id,
                each.kind,
                each.start,
                each.label or None,
                working if each.revoked_at_s is None else "revoked",
                Time(each.added_at_s),
            )
            for each in found
        ],
        empty="It has no clients: `tollway client add ACCOUNT` adds one.",
    )
    return Output(found, table)


@command(clients, "revoke")
async def revoke_client_(
    session: Session, client: Annotated[str, argument("CLIENT", "The client's id, or its secret.")]
) -> Output:
    """Revoke a client: it gets no more tokens, and those it has are refused."""
    revoked = await revoke_client(await session.open(), session.runtime, client)
    return Output(
        revoked, f"Client {revoked.id} is revoked: its tokens are refused from the next call on."
    )
