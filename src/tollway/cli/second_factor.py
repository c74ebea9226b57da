"""`tollway second-factor`: who is asked for a code after the password."""

from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from tollway.cli.command import Session, add_group, command
from tollway.cli.output import Output, Table, Time
from tollway.cli.parameters import argument
from tollway.contract.language import Sentence
from tollway.identity.passwords import folded_login
from tollway.identity.people import MEMBER, OPERATOR
from tollway.identity.second_factor import ListedFactor, list_factors, reset_factor
from tollway.ledger import LedgerError

commands = typer.Typer()
factors = add_group(commands, "second-factor")


class Who(StrEnum):
    """The areas in which people sign in; logins of two areas may be the same."""

    OPERATOR = "operator"
    MEMBER = "member"
    OWNER = "owner"


def _who(factor: ListedFactor) -> Who:
    """An owner is a shop or a user, and no two owners have the same login."""
    return Who(factor.kind) if factor.kind in (OPERATOR, MEMBER) else Who.OWNER


@command(factors, "list")
async def list_(session: Session) -> Output:
    """List who has a second factor."""
    found = [
        # By the word that `reset` takes.
        msgspec.structs.replace(each, kind=_who(each).value)
        for each in await list_factors(await session.open())
    ]
    table = Table(
        ("kind", "login", "since", "recovery codes left"),
        [(each.kind, each.login, Time(each.confirmed_at_s), each.recovery_codes) for each in found],
        empty="There are no second factors: people set one up on their own pages.",
    )
    return Output(found, table)


@command(factors, "reset")
async def reset(
    session: Session,
    who: Annotated[Who, argument("WHO", "Whose it is: operator, member or owner.")],
    login: Annotated[str, argument("LOGIN", "What the person signs in with.")],
) -> Output:
    """Take a lost second factor away: the password alone signs in again."""
    database = await session.open()
    for each in await list_factors(database):
        if (_who(each), each.login) == (who, folded_login(login)):
            await reset_factor(database, session.runtime, each.holder)
            return Output(each, f"{each.login} signs in without a code now.")
    raise LedgerError(
        "No {who} {login} has a second factor: `tollway second-factor list` shows them all.",
        who=Sentence(who),
        login=login,
    )
