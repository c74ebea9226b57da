"""`tollway operator` and `tollway second-factor`: the people who sign in to the operator's pages,
and who of all people is asked for a code after the password."""

from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from tollway.cli.command import Session, add_group, command
from tollway.cli.output import Output, Table, Time
from tollway.cli.parameters import argument, option
from tollway.contract.language import Sentence
from tollway.identity.passwords import folded_login
from tollway.identity.people import MEMBER, OPERATOR, Person, Role, list_operators, remove_person
from tollway.identity.second_factor import ListedFactor, list_factors, reset_factor
from tollway.identity.sign_in_links import Invitation, ensure_operator, invite, new_link
from tollway.ledger import LedgerError
from tollway.store.database import Database

LINK_MINUTES = 60

commands = typer.Typer()
operators = add_group(commands, "operator")
factors = add_group(commands, "second-factor")

LoginArgument = Annotated[str, argument("LOGIN", "What the operator signs in with.")]


@command(operators, "invite")
async def invite_(
    session: Session,
    login: LoginArgument,
    name: Annotated[str | None, option("The name on pages; without it, the login.")] = None,
) -> Output:
    """Add an operator, and print the link by which they sign in first."""
    database = await session.open()
    made = await invite(
        database, session.runtime, role=Role.OPERATOR, name=name or login, login=login
    )
    return await _shown(session, made)


@command(operators, "link")
async def link(
    session: Session,
    login: Annotated[
        str | None, argument("LOGIN", "The operator's login; without it, the first.")
    ] = None,
) -> Output:
    """Print a link that signs an operator in, once, within the hour; earlier ones end."""
    database = await session.open()
    found = (
        await _operator(database, login)
        if login
        else await ensure_operator(database, session.runtime)
    )
    made = await new_link(database, session.runtime, found.id, LINK_MINUTES * 60)
    return await _shown(session, made)


@command(operators, "list")
async def list_(session: Session) -> Output:
    """List the operators."""
    found = await list_operators(await session.open())
    table = Table(
        ("login", "name", "added", "removed"),
        [(each.login, each.name, Time(each.added_at_s), Time(each.removed_at_s)) for each in found],
        empty="There are no operators yet: `tollway operator link` makes the first.",
    )
    return Output(found, table)


@command(operators, "remove")
async def remove(session: Session, login: LoginArgument) -> Output:
    """Take an operator's access away, at once."""
    database = await session.open()
    found = await _operator(database, login)
    removed = await remove_person(database, session.runtime, found.id)
    return Output(removed, f"{removed.name} can no longer sign in.")


async def _operator(database: Database, login: str) -> Person:
    for each in await list_operators(database):
        if each.login == folded_login(login) and each.removed_at_s is None:
            return each
    raise LedgerError(
        "No operator signs in as {login}: `tollway operator list` shows them all.", login=login
    )


def operator_url(address: str, made: Invitation) -> str:
    return f"{address}/operator/enter?link={made.link}"


async def _shown(session: Session, made: Invitation) -> Output:
    address = await session.page_address()
    url = operator_url(address.url, made)
    return Output(
        {"person": made.person, "url": url, "expires_at_s": made.expires_at_s},
        f"This link signs {made.person.name} in, once, until "
        f"{session.local_time(made.expires_at_s)}:",
        *filter(None, (url, address.doubt)),
    )


class Who(StrEnum):
    """The areas in which people sign in; logins of two areas may be the same."""

    OPERATOR = "operator"
    MEMBER = "member"
    OWNER = "owner"


def _who(factor: ListedFactor) -> Who:
    """An owner is a shop or a user, and no two owners have the same login."""
    return Who(factor.kind) if factor.kind in (OPERATOR, MEMBER) else Who.OWNER


@command(factors, "list")
async def list_factors_(session: Session) -> Output:
    """List who has a second factor."""
    found = [
        # With the word that `reset` accepts.
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
