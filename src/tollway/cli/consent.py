"""`tollway consent`: which account may use whose data."""

from collections.abc import Sequence
from typing import Annotated

import typer

from tollway.cli.context import Session, run
from tollway.cli.options import AccountArgument, DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table, shown_time
from tollway.consent.grants import (
    Grant,
    GrantRequest,
    NamedGrant,
    all_grants,
    give_grant,
    grants_of_account,
    revoke_grant,
)
from tollway.contract.operation import OwnerKind
from tollway.ledger import LedgerError
from tollway.operations.catalogue import OPERATIONS

_DAY_S = 86_400
_DAYS_MAX = 36_500

group = typer.Typer(
    help="List, give and revoke the consents of shops and users.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="consent")


@group.command("list")
def list_(
    account: Annotated[
        str | None,
        typer.Option(
            metavar="ACCOUNT", help="Only those of this account, by name or id.", show_default=False
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List consents, the newest first, with those that have ended."""

    async def work(at: Session) -> tuple[Session, Sequence[NamedGrant]]:
        if account is None:
            return at, await all_grants(at.database)
        return at, await grants_of_account(at.database, account)

    at, grants = run(database, work)
    if as_json:
        print_json([each.grant for each in grants])
        return
    zone, now_s = at.settings.zone, at.runtime.at_s()
    print_table(
        ("consent", "account", "of", "scope", "state", "granted", "by", "expires"),
        [
            (
                each.grant.id,
                each.account_name,
                f"{each.grant.owner_kind} {each.grant.owner_id}",
                each.grant.scope,
                _state(each.grant, now_s),
                shown_time(each.grant.granted_at_s, zone),
                each.grant.granted_by,
                shown_time(each.grant.expires_at_s, zone),
            )
            for each in grants
        ],
        empty="There are no consents: owners give them, or `tollway consent grant` does.",
        times_in=zone,
    )


@group.command("grant")
def grant(
    account: AccountArgument,
    kind: Annotated[
        OwnerKind, typer.Argument(metavar="KIND", help="Of a shop or a user.", show_default=False)
    ],
    owner_id: Annotated[
        str, typer.Argument(metavar="ID", help="The shop's or user's id.", show_default=False)
    ],
    scope: Annotated[
        str, typer.Argument(metavar="SCOPE", help="What is allowed.", show_default=False)
    ],
    days: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=_DAYS_MAX,
            help="For how many days; without this, as long as the settings say.",
            show_default=False,
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a consent in an owner's name, for example one that was signed on paper."""
    _check_scope(kind, scope)
    grant_request = GrantRequest(account, kind.value, owner_id, scope)

    async def work(at: Session) -> Grant:
        lifetime_s = (days or at.settings.consent_days) * _DAY_S
        return await give_grant(
            at.database, at.runtime, grant_request, lifetime_s=lifetime_s, granted_by="operator"
        )

    given = run(database, work)
    if as_json:
        print_json(given)
    else:
        print_sentence(
            f"Account {account} has consent {given.id} of {kind.value} {owner_id} for {scope}."
        )


@group.command("revoke")
def revoke(
    consent: Annotated[
        str, typer.Argument(metavar="CONSENT", help="The consent's id.", show_default=False)
    ],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke a consent: the account's next call is refused."""
    revoked = run(database, lambda at: revoke_grant(at.database, at.runtime, consent))
    if as_json:
        print_json(revoked)
    else:
        print_sentence(f"Consent {revoked.id} is revoked: the next call under it is refused.")


def _check_scope(kind: OwnerKind, scope: str) -> None:
    known = sorted(
        {
            operation.consent.scope
            for operation in OPERATIONS
            if operation.consent is not None and operation.consent.whose is kind
        }
    )
    if scope not in known:
        listed = ", ".join(known) or "none"
        raise LedgerError(f"A {kind.value} has no scope {scope}: there is {listed}.")


def _state(grant: Grant, now_s: int) -> str:
    if grant.revoked_at_s is not None:
        return "revoked"
    return "valid" if grant.holds(now_s) else "expired"
