"""What all pages of one account have: its name, its tabs, each with an address, and links to what
other lists have of it."""

from collections.abc import Sequence

from starlette.responses import Response

from tollway.identity.people import Role
from tollway.ledger import LedgerError
from tollway.ledger.accounts import Account, find_account
from tollway.web.account_parts import state_notice
from tollway.web.area import Context, address
from tollway.web.blocks import Block, Link, MoreOfPage, Tab
from tollway.web.member_parts import CHANGED, REMOVED, MemberPages
from tollway.web.page_errors import PageError
from tollway.web.wording import sentence

ACCOUNTS = "/operator/accounts"
ONE = "/operator/account"
PERMISSIONS = f"{ONE}/operations"
TOKENS = f"{ONE}/tokens"
CLIENTS = f"{ONE}/clients"
MEMBERS = f"{ONE}/members"
LEDGER = f"{ONE}/ledger"
_TABS = (
    (ONE, sentence("Overview")),
    (PERMISSIONS, sentence("Operations")),
    (TOKENS, sentence("Tokens")),
    (CLIENTS, sentence("Clients")),
    (MEMBERS, sentence("Members")),
    (LEDGER, sentence("Ledger")),
)
_SAID = {
    "opened": sentence("The account is open. Top it up, enable operations, and issue a token."),
    "topped-up": sentence("Done. The account's next call sees it."),
    "permission": sentence("Done. It acts on the next call."),
    "revoked": sentence("The token is revoked: it is refused from the next call on."),
    "suspended": sentence("The account is suspended: its next call is refused."),
    "resumed": sentence("The account is open: its next call is answered."),
    "closed": sentence("The account is closed."),
    "removed": REMOVED,
    "role": CHANGED,
}


async def known_account(context: Context, wanted: str) -> Account:
    """The account with this id or name; the error if there is none says what to do."""
    try:
        return await find_account(context.database, wanted)
    except LedgerError:
        # The error's own text names a command.
        raise PageError(
            404,
            "There is no such account",
            "No account has the name or id {account}: look it up under Accounts.",
            account=wanted,
        ).at("account") from None


async def find_wanted(context: Context) -> Account:
    return await known_account(context, context.form.get("account") or context.query("id"))


def account_crumbs(context: Context, account: Account, tab: str = ONE) -> list[Link]:
    """For a page below a tab of the account."""
    return [
        Link(context.say("Accounts"), ACCOUNTS),
        Link(account.name, address(tab, id=account.id)),
    ]


def account_frame(context: Context, account: Account, tab: str) -> MoreOfPage:
    say, named = context.say, {"id": account.id}
    return {
        "crumbs": [Link(say("Accounts"), ACCOUNTS)],
        "tabs": [Tab(say(text), address(path, **named), path == tab) for path, text in _TABS],
        "actions": [
            Link(say("Requests"), address("/operator/requests", account=account.id)),
            Link(say("Waybills"), address("/operator/waybills", account=account.id)),
            Link(say("Consents"), address("/operator/consents", q=account.id)),
            Link(say("Trail"), address("/operator/trail", of=f"account {account.id}")),
        ],
    }


def tab_page(
    context: Context, account: Account, tab: str, blocks: Sequence[Block], *first: Block
) -> Response:
    """One tab; `first` are the blocks that an act shows."""
    shown = [*context.reported(_SAID, *first), *state_notice(context, account), *blocks]
    return context.page(account.name, shown, **account_frame(context, account, tab))


MEMBER_PAGES = MemberPages(
    find_wanted, tab_page, account_crumbs, MEMBERS, f"{ONE}/member", f"{ONE}/invite", Role.OWNER
)
