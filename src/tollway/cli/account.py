"""`tollway account`: the accounts that callers pay from."""

from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
import typer

from tollway.cli.context import Session, run
from tollway.cli.options import AccountArgument, DatabaseOption, JsonOption
from tollway.cli.output import print_json, print_sentence, print_table, shown_time
from tollway.cli.token import print_tokens
from tollway.ledger.accounts import (
    Account,
    close_account,
    find_account,
    list_accounts,
    open_account,
)
from tollway.ledger.entries import Balance, list_balances
from tollway.ledger.permissions import Permission, list_permissions
from tollway.ledger.tokens import Token, list_tokens

group = typer.Typer(help="Open, list, show and close accounts.", no_args_is_help=True)


class AccountSheet(msgspec.Struct, frozen=True):
    """Everything there is to see about one account."""

    account: Account
    balances: list[Balance]
    grants: list[Permission]
    tokens: list[Token]


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="account")


@group.command("open")
def open_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name that no other account has.")],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open an account."""
    opened = run(database, lambda at: open_account(at.database, at.runtime, name))
    if as_json:
        print_json(opened)
    else:
        print_sentence(f"Account {opened.name} is open; its id is {opened.id}.")


@group.command("list")
def list_(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List all accounts, the oldest first."""

    async def work(at: Session) -> tuple[ZoneInfo, list[Account]]:
        return at.settings.zone, await list_accounts(at.database)

    zone, accounts = run(database, work)
    if as_json:
        print_json(accounts)
    else:
        print_table(
            ("id", "name", "opened", "closed"),
            [
                (
                    account.id,
                    account.name,
                    shown_time(account.opened_at_s, zone),
                    shown_time(account.closed_at_s, zone),
                )
                for account in accounts
            ],
            empty="There are no accounts yet: `tollway account open NAME` opens one.",
            times_in=zone,
        )


@group.command("show")
def show(
    wanted: AccountArgument, database: DatabaseOption = None, as_json: JsonOption = False
) -> None:
    """Show an account with its balances, grants and tokens."""

    async def work(at: Session) -> tuple[Session, AccountSheet]:
        account = await find_account(at.database, wanted)
        return at, AccountSheet(
            account,
            await list_balances(at.database, account.id),
            await list_permissions(at.database, account.id),
            await list_tokens(at.database, account.id),
        )

    at, sheet = run(database, work)
    if as_json:
        print_json(sheet)
    else:
        _print_sheet(sheet, at.settings.zone, at.runtime.at_s())


@group.command("close")
def close(
    wanted: AccountArgument, database: DatabaseOption = None, as_json: JsonOption = False
) -> None:
    """Close an account for good: its tokens are refused, its books stay."""
    closed = run(database, lambda at: close_account(at.database, at.runtime, wanted))
    if as_json:
        print_json(closed)
    else:
        print_sentence(f"Account {closed.name} is closed; its books can still be read.")


def _print_sheet(sheet: AccountSheet, zone: ZoneInfo, now_s: int) -> None:
    account = sheet.account
    closed = (
        "" if account.closed_at_s is None else f", closed {shown_time(account.closed_at_s, zone)}"
    )
    print_sentence(
        f"Account {account.name} ({account.id}), "
        f"opened {shown_time(account.opened_at_s, zone)}{closed}."
    )
    print_sentence("")
    print_table(
        ("balance", "left", "held", "charged", "entries"),
        [
            (balance.unit, balance.amount, balance.held, balance.posted, balance.entries)
            for balance in sheet.balances
        ],
        empty="It has no balance: `tollway credit add` gives it one.",
    )
    print_sentence("")
    print_table(
        ("may call", "price", "calls a second"),
        [
            (
                grant.operation,
                "common" if grant.price is None else grant.price,
                "common" if grant.rate_limit is None else grant.rate_limit,
            )
            for grant in sheet.grants
        ],
        empty="It may call nothing: `tollway grant` enables an operation.",
    )
    print_sentence("")
    print_tokens(sheet.tokens, zone, now_s)
