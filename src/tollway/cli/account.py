"""`tollway account`: the accounts that callers pay from."""

from collections.abc import Sequence
from typing import Annotated

import typer

from tollway.cli.command import Session, add_group, command, confirm
from tollway.cli.output import Output, Table, Time, counted
from tollway.cli.parameters import AccountArgument, YesOption, argument
from tollway.ledger.accounts import (
    Account,
    close_account,
    find_account,
    list_accounts,
    open_account,
    resume_account,
    suspend_account,
)
from tollway.ledger.tokens import Token, list_tokens

commands = typer.Typer()
accounts = add_group(commands, "account")


@command(accounts, "open")
async def open_(
    session: Session, name: Annotated[str, argument("NAME", "A name that no other account has.")]
) -> Output:
    """Open an account."""
    opened = await open_account(await session.open(), session.runtime, name)
    return Output(opened, f"Account {opened.name} is open; its id is {opened.id}.")


@command(accounts, "list")
async def list_(session: Session) -> Output:
    """List all accounts, the oldest first."""
    found = await list_accounts(await session.open())
    table = Table(
        ("id", "name", "state", "opened", "closed"),
        [
            (each.id, each.name, each.state, Time(each.opened_at_s), Time(each.closed_at_s))
            for each in found
        ],
        empty="There are no accounts yet: `tollway account open NAME` opens one.",
    )
    return Output(found, table)


@command(accounts, "show")
async def show(session: Session, account: AccountArgument) -> Output:
    """Show an account with its balances, permissions and tokens."""
    from tollway.ledger.entries import list_balances
    from tollway.ledger.permissions import list_permissions, list_price, operation_states
    from tollway.operations.catalogue import BY_NAME

    database = await session.open()
    found = await find_account(database, account)
    balances = await list_balances(database, found.id)
    permissions = await list_permissions(database, found.id)
    states = await operation_states(database)
    tokens = await list_tokens(database, found.id)
    changed_at_s = found.closed_at_s or found.suspended_at_s
    changed = f", {found.state} {session.local_time(changed_at_s)}" if changed_at_s else ""
    table_of_balances = Table(
        ("balance", "left", "held", "charged", "entries"),
        [(each.unit, each.amount, each.held, each.posted, each.entries) for each in balances],
        empty="It has no balance: `tollway credit add` gives it one.",
    )

    def price(own: int | None, operation: str) -> int | str:
        if own is not None:
            return own
        known = BY_NAME.get(operation)
        return "list price" if known is None else f"{list_price(known, states):,} (list price)"

    table_of_permissions = Table(
        ("may call", "price", "calls a second"),
        [
            (each.operation, price(each.price, each.operation), each.rate_limit or "default")
            for each in permissions
        ],
        empty="It may call nothing: `tollway permission add` enables an operation.",
    )
    return Output(
        {"account": found, "balances": balances, "permissions": permissions, "tokens": tokens},
        f"Account {found.name} ({found.id}), "
        f"opened {session.local_time(found.opened_at_s)}{changed}.",
        "",
        table_of_balances,
        "",
        table_of_permissions,
        "",
        table_of_tokens(tokens, session.runtime.at_s(), found),
    )


@command(accounts, "suspend")
async def suspend(session: Session, account: AccountArgument) -> Output:
    """Suspend an account: its calls are refused until it is resumed, all else stays."""
    found = await suspend_account(await session.open(), session.runtime, account)
    return Output(
        found,
        f"Account {found.name} is suspended: its next call is refused.",
        f"`tollway account resume {found.id}` ends that.",
    )


@command(accounts, "resume")
async def resume(session: Session, account: AccountArgument) -> Output:
    """Resume a suspended account: its calls are answered again."""
    found = await resume_account(await session.open(), session.runtime, account)
    return Output(found, f"Account {found.name} is open: its next call is answered.")


@command(accounts, "close")
async def close(session: Session, account: AccountArgument, yes: YesOption = False) -> Output:
    """Close an account for good: its tokens are refused, its entries stay."""
    from tollway.ledger.entries import list_balances

    database = await session.open()
    found = await find_account(database, account)
    if not yes and found.closed_at_s is None:
        confirm(f"Close account {found.name} ({found.id})? It cannot be opened again.")
    closed = await close_account(database, session.runtime, account)
    left = [
        _in_words(each.unit, each.amount)
        for each in await list_balances(database, closed.id)
        if each.amount
    ]
    return Output(
        closed,
        f"Account {closed.name} is closed; its entries can still be read.",
        *([f"It had {' and '.join(left)} left."] if left else []),
    )


def _in_words(unit: str, amount: int) -> str:
    operation = unit.removeprefix("calls:")
    if operation == unit:
        return counted(amount, "credit")
    return f"{counted(amount, 'call')} of {operation}"


def table_of_tokens(tokens: Sequence[Token], now_s: int, account: Account) -> Table:
    return Table(
        ("token", "starts with", "label", "state", "issued", "expires", "last used", "limits"),
        [
            (
                each.id,
                each.start,
                each.label or None,
                _state(each, now_s, account),
                Time(each.issued_at_s),
                Time(each.expires_at_s),
                Time(each.last_used_at_s),
                each.limits.in_words() or None,
            )
            for each in tokens
        ],
        empty="It has no tokens: `tollway token issue ACCOUNT` issues one.",
    )


def _state(token: Token, now_s: int, account: Account) -> str:
    state = token.state(now_s)
    return "closed" if state == "valid" and account.closed_at_s is not None else state
