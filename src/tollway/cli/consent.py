"""`tollway shop` and `tollway consent`: shops and users, and which account may use whose data."""

import sys
from typing import Annotated

import typer

from tollway.cli.command import Session, UsageError, add_group, command, confirm
from tollway.cli.output import Output, Table, Time, counted, spinner
from tollway.cli.parameters import DAY_S, DAYS_MAX, AccountArgument, YesOption, argument, option
from tollway.consent.erasures import Erasure, ask_erasure, find_erasure
from tollway.consent.grants import (
    GrantRequest,
    all_grants,
    give_grant,
    grants_of_account,
    revoke_grant,
)
from tollway.consent.links import PASSWORD_LINK_HOURS, PasswordLinks
from tollway.consent.owners import (
    Owner,
    add_owner,
    find_credential,
    find_owner,
    list_owners,
    set_password,
    sign_out_everywhere,
)
from tollway.contract.language import Sentence
from tollway.contract.operation import OwnerKind
from tollway.ledger import LedgerError
from tollway.operations.catalogue import OPERATIONS
from tollway.store.key_check import secret_file_of
from tollway.store.keys import load_secret

commands = typer.Typer()
shops = add_group(commands, "shop")
consents = add_group(commands, "consent")

PasswordStdinOption = Annotated[
    bool,
    option("Read the password from standard input instead of asking for it.", "--password-stdin"),
]


@command(shops, "add")
async def add(
    session: Session,
    owner_id: Annotated[
        str, argument("ID", "The id that callers send as owner_id or platform_user_id.")
    ],
    name: Annotated[str, argument("NAME", "What it is called.")],
    login: Annotated[str, option("What its owner signs in with.")],
    kind: Annotated[
        OwnerKind, option("A shop, or a user of the marketplace.", show_default=True)
    ] = OwnerKind.SHOP,
    shop_code: Annotated[str | None, option("The shop's association code, if it has one.")] = None,
    password_stdin: PasswordStdinOption = False,
) -> Output:
    """Make a shop or user known, with the login and password of its owner."""
    password = _read_password(from_stdin=password_stdin)
    wanted = Owner(kind.value, owner_id, name, shop_code, login, 0)
    added = await add_owner(await session.open(), session.runtime, wanted, password)
    return Output(
        added,
        f"{added.kind.capitalize()} {added.name} ({added.id}) is known; "
        f"its owner signs in as {added.login}.",
    )


@command(shops, "list")
async def list_shops(session: Session) -> Output:
    """List the shops and users that are known."""
    owners = await list_owners(await session.open())
    table = Table(
        ("kind", "id", "name", "shop code", "login", "added"),
        [
            (each.kind, each.id, each.name, each.shop_code, each.login, Time(each.added_at_s))
            for each in owners
        ],
        empty="No shop or user is known yet: `tollway shop add` adds one.",
    )
    return Output(owners, table)


@command(shops, "password")
async def change_password(
    session: Session,
    login: Annotated[str, argument("LOGIN", "The owner's login.")],
    password_stdin: PasswordStdinOption = False,
    by_link: Annotated[
        bool, option("Print a link by which the owner chooses it; it works once.", "--link")
    ] = False,
) -> Output:
    """Give an owner another password; it ends the sessions of the old one."""
    if by_link:
        return await _password_link(session, login)
    password = _read_password(from_stdin=password_stdin)
    owner = await set_password(await session.open(), session.runtime, login, password)
    return Output(owner, f"{owner.login} signs in with the new password from now on.")


@command(shops, "sign-out")
async def sign_out(
    session: Session, login: Annotated[str, argument("LOGIN", "The owner's login.")]
) -> Output:
    """Sign an owner out in all browsers."""
    ended = await sign_out_everywhere(await session.open(), session.runtime, login)
    sessions = counted(ended, "session")
    return Output({"ended": ended}, f"{login} is signed out everywhere: {sessions} ended.")


@command(shops, "erase-receivers")
async def erase_receivers(
    session: Session,
    shop: Annotated[str, argument("SHOP", "The shop's id.")],
    yes: YesOption = False,
) -> Output:
    """Erase the receivers of a shop's orders and waybills; it cannot be undone.

    One that was begun, here or on a page, and did not end goes on.
    """
    from tollway.gateway.receiver_erasure import erase
    from tollway.operations.orders.storage import last_change_of

    database, sealer = await session.open(), await session.sealer()
    owner = await find_owner(database, OwnerKind.SHOP, shop)
    asked = await find_erasure(database, shop)
    if asked is None or asked.finished_at_s is not None:
        if not yes:
            confirm(f"Erase all receivers of {owner.name} ({shop})? It cannot be undone.")
        asked = await ask_erasure(database, session.runtime, shop, last_change_of)
    lag_s = session.settings.read_lag_s
    with spinner(f"Erasing the receivers of {owner.name}"):
        erased = await erase(database, sealer, session.runtime, asked, lag_s)
    return Output(erased, *_erased_lines(erased))


@command(consents, "list")
async def list_consents(
    session: Session,
    account: Annotated[
        str | None, option("Only those of this account, by name or id.", metavar="ACCOUNT")
    ] = None,
) -> Output:
    """List consents, the newest first, with those that have ended."""
    database = await session.open()
    if account is None:
        grants = await all_grants(database)
    else:
        grants = await grants_of_account(database, account)
    now_s = session.runtime.at_s()
    table = Table(
        ("consent", "account", "of", "scope", "state", "granted", "by", "expires"),
        [
            (
                each.grant.id,
                each.account_name,
                f"{each.grant.owner_kind} {each.grant.owner_id}",
                each.grant.scope,
                each.grant.state(now_s),
                Time(each.grant.granted_at_s),
                each.grant.granted_by,
                Time(each.grant.expires_at_s),
            )
            for each in grants
        ],
        empty="There are no consents: owners give them, or `tollway consent grant` does.",
    )
    return Output([each.grant for each in grants], table)


@command(consents, "grant")
async def grant(
    session: Session,
    account: AccountArgument,
    kind: Annotated[OwnerKind, argument("KIND", "Whose consent it is: a shop's or a user's.")],
    owner_id: Annotated[str, argument("ID", "The shop's or user's id.")],
    scope: Annotated[
        str,
        argument("SCOPE", "What is allowed: orders or waybills of a shop, promotion of a user."),
    ],
    days: Annotated[
        int | None,
        option("For how many days; without it, as long as the settings say.", min=1, max=DAYS_MAX),
    ] = None,
) -> Output:
    """Enter a consent in an owner's name, for example one that was signed on paper."""
    _check_scope(kind, scope)
    given = await give_grant(
        await session.open(),
        session.runtime,
        GrantRequest(account, kind.value, owner_id, scope),
        lifetime_s=(days or session.settings.consent_days) * DAY_S,
        granted_by="operator",
    )
    return Output(
        given,
        f"Account {account} has consent {given.id} of {kind.value} {owner_id} for {scope}, "
        f"until {session.local_time(given.expires_at_s)}.",
    )


@command(consents, "revoke")
async def revoke(
    session: Session, consent: Annotated[str, argument("CONSENT", "The consent's id.")]
) -> Output:
    """Revoke a consent: the account's next call is refused."""
    revoked = await revoke_grant(await session.open(), session.runtime, consent)
    return Output(revoked, f"Consent {revoked.id} is revoked: the next call under it is refused.")


async def _password_link(session: Session, login: str) -> Output:
    database, settings = await session.open(), session.settings
    found = await find_credential(database, login)
    secret = load_secret(secret_file_of(settings).present())
    address = await session.page_address()
    links = PasswordLinks(secret, address.url)
    made = await links.make(database, session.runtime, found)
    return Output(
        made._asdict(),
        f"Send this to the owner; within {PASSWORD_LINK_HOURS} hours it lets them choose a new "
        "password, once:",
        *filter(None, (made.url, address.doubt)),
    )


def _read_password(*, from_stdin: bool) -> str:
    """From standard input or a prompt; arguments can be read by other users of the machine."""
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise UsageError("There is no terminal to ask for the password: use --password-stdin.")
    password: str = typer.prompt(
        "Password", hide_input=True, confirmation_prompt=True, err=True, type=str
    )
    return password


def _erased_lines(erased: Erasure) -> list[str]:
    lines = [
        f"Erased in shop {erased.owner_id}, with receivers: orders {erased.orders:,}, "
        f"waybills {erased.waybills:,}, kept answers {erased.answers:,}, "
        f"rejected records {erased.rejected:,}."
    ]
    if erased.finished_at_s is None:
        lines.append(
            f"Waybills that wait for their carrier: {erased.waiting or 0:,}. A gateway erases "
            "their receivers when they are settled; or run this again then."
        )
    return lines


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
        raise LedgerError(
            "A {kind} has no scope {scope}: choose one of {known}.",
            kind=Sentence(kind),
            scope=scope,
            known=listed,
        )
