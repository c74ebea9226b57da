"""`tollway shop`: the shops and users whose consent callers need."""

from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from tollway.cli.context import Session, run
from tollway.cli.options import DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table, shown_time
from tollway.cli.passwords import PasswordStdinOption, read_password
from tollway.consent.owners import Owner, add_owner, list_owners, set_password
from tollway.contract.operation import OwnerKind

group = typer.Typer(
    help="Add and list the shops and users whose data callers ask for.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="shop")


@group.command("add")
def add(
    owner_id: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The id that callers send as owner_id or platform_user_id.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What it is called.", show_default=False)
    ],
    login: Annotated[str, typer.Option(help="What its owner signs in with.", show_default=False)],
    kind: Annotated[
        OwnerKind, typer.Option(help="A shop, or a user of the marketplace.")
    ] = OwnerKind.SHOP,
    shop_code: Annotated[
        str | None,
        typer.Option(help="The shop's association code, if it has one.", show_default=False),
    ] = None,
    password_stdin: PasswordStdinOption = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a shop or user known, with the login and password of its owner."""
    password = read_password(from_stdin=password_stdin)
    wanted = Owner(kind.value, owner_id, name, shop_code, login, 0)
    added = run(database, lambda at: add_owner(at.database, at.runtime, wanted, password))
    if as_json:
        print_json(added)
    else:
        print_sentence(
            f"{added.kind.capitalize()} {added.name} ({added.id}) is known; "
            f"its owner signs in as {added.login}."
        )


@group.command("list")
def list_(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the shops and users that are known."""

    async def work(at: Session) -> tuple[ZoneInfo, list[Owner]]:
        return at.settings.zone, await list_owners(at.database)

    zone, owners = run(database, work)
    if as_json:
        print_json(owners)
    else:
        print_table(
            ("kind", "id", "name", "shop code", "login", "added"),
            [
                (
                    owner.kind,
                    owner.id,
                    owner.name,
                    owner.shop_code,
                    owner.login,
                    shown_time(owner.added_at_s, zone),
                )
                for owner in owners
            ],
            empty="No shop or user is known yet: `tollway shop add` adds one.",
            times_in=zone,
        )


@group.command("password")
def password_(
    login: Annotated[
        str, typer.Argument(metavar="LOGIN", help="The owner's login.", show_default=False)
    ],
    password_stdin: PasswordStdinOption = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give an owner another password; it ends the sessions of the old one."""
    password = read_password(from_stdin=password_stdin)
    owner = run(database, lambda at: set_password(at.database, login, password))
    if as_json:
        print_json(owner)
    else:
        print_sentence(f"{owner.login} signs in with the new password from now on.")
