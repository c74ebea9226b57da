"""`tollway token`: what callers identify themselves with."""

from collections.abc import Sequence
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from tollway.cli.context import Session, run
from tollway.cli.options import AccountArgument, DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table, shown_time
from tollway.ledger.tokens import IssuedToken, Token, issue_token, list_tokens, revoke_token

_DAY_S = 86_400
_LIFETIME_DAYS_MAX = 36_500

group = typer.Typer(help="Issue, list and revoke access tokens.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="token")


@group.command("issue")
def issue(
    account: AccountArgument,
    is_test: Annotated[
        bool, typer.Option("--test", help="A sandbox token: demo data, nothing charged.")
    ] = False,
    label: Annotated[str, typer.Option(help="What the token is for.", show_default=False)] = "",
    expires_days: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=_LIFETIME_DAYS_MAX,
            help="After how many days it expires; without this, never.",
            show_default=False,
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Issue a token. Its text is shown this once; only a hash of it is kept."""

    async def work(at: Session) -> tuple[ZoneInfo, IssuedToken]:
        return at.settings.zone, await issue_token(
            at.database,
            at.runtime,
            account,
            kind="test" if is_test else "live",
            label=label,
            lifetime_s=None if expires_days is None else expires_days * _DAY_S,
        )

    zone, issued = run(database, work)
    if as_json:
        print_json(issued)
        return
    expiry = shown_time(issued.token.expires_at_s, zone)
    print_sentence(issued.text)
    print_sentence(
        f"Keep it now, it is not shown again. Its id is {issued.token.id}; "
        + ("it does not expire." if expiry is None else f"it expires {expiry}.")
    )


@group.command("list")
def list_(
    account: AccountArgument, database: DatabaseOption = None, as_json: JsonOption = False
) -> None:
    """List an account's tokens, the oldest first."""

    async def work(at: Session) -> tuple[Session, list[Token]]:
        return at, await list_tokens(at.database, account)

    at, tokens = run(database, work)
    if as_json:
        print_json(tokens)
    else:
        print_tokens(tokens, at.settings.zone, at.runtime.at_s())


@group.command("revoke")
def revoke(
    token: Annotated[
        str,
        typer.Argument(metavar="TOKEN", help="The token's id, or its text.", show_default=False),
    ],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke a token: it is refused from the next call on."""
    revoked = run(database, lambda at: revoke_token(at.database, at.runtime, token))
    if as_json:
        print_json(revoked)
    else:
        print_sentence(f"Token {revoked.id} is revoked: it is refused from the next call on.")


def print_tokens(tokens: Sequence[Token], zone: ZoneInfo, now_s: int) -> None:
    print_table(
        ("token", "starts with", "label", "state", "issued", "expires", "last used"),
        [
            (
                token.id,
                token.start,
                token.label or None,
                _state(token, now_s),
                shown_time(token.issued_at_s, zone),
                shown_time(token.expires_at_s, zone),
                shown_time(token.last_used_at_s, zone),
            )
            for token in tokens
        ],
        empty="It has no tokens: `tollway token issue ACCOUNT` issues one.",
        times_in=zone,
    )


def _state(token: Token, now_s: int) -> str:
    if token.revoked_at_s is not None:
        return "revoked"
    if token.expires_at_s is not None and token.expires_at_s <= now_s:
        return "expired"
    return "valid"
