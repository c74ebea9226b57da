"""An account's tokens and members, managed by its own people."""

from collections.abc import Mapping, Sequence
from functools import partial

from starlette.responses import Response

from tollway.identity.people import Role
from tollway.ledger.accounts import Account
from tollway.ledger.tokens import Token, replace_token
from tollway.web.account_parts import state_notice
from tollway.web.area import Context
from tollway.web.blocks import Block, Field, Form, Link
from tollway.web.caller.home import PATH, own_account
from tollway.web.member_parts import CHANGED, REMOVED, MemberPages, check_signed_in
from tollway.web.page_errors import PageError
from tollway.web.token_parts import TokenPages, new_token
from tollway.web.wording import exact_time, sentence

TOKENS = f"{PATH}/tokens"
MEMBERS = f"{PATH}/members"
_GRACE_HOURS = (1, 24, 72, 168)
_MEMBER_SAID = {"removed": REMOVED, "role": CHANGED}
_REVOKED = {"revoked": sentence("The token is revoked: it is refused from the next call on.")}


def _page(
    title: str,
    said: Mapping[str, str],
    context: Context,
    account: Account,
    _: str,
    blocks: Sequence[Block],
    *first: Block,
) -> Response:
    shown = [*state_notice(context, account), *context.reported(said, *first), *blocks]
    return context.page(context.say(title), shown)


def _crumbs(context: Context, _: Account, path: str) -> list[Link]:
    return [Link(context.say("Members"), path)]


MEMBER_PAGES = MemberPages(
    own_account,
    partial(_page, sentence("Members"), _MEMBER_SAID),
    _crumbs,
    MEMBERS,
    MEMBERS,
    f"{MEMBERS}/invite",
    Role.DEVELOPER,
)
TOKEN_PAGES = TokenPages(
    own_account,
    partial(_page, sentence("Tokens"), _REVOKED),
    TOKENS,
    f"{TOKENS}/issue",
    f"{TOKENS}/revoke",
    f"{TOKENS}/rotate",
)


async def _rotatable(context: Context) -> Token:
    token = await TOKEN_PAGES.own_token(context)
    if token.state(context.now_s) != "valid":
        raise PageError(409, "This token has ended", "Issue a new one instead.")
    return token


async def show_rotation(context: Context) -> Response:
    say, token = context.say, await _rotatable(context)
    note = say("The new token has the same limits. Change your program before the old one ends.")
    if token.expires_at_s is not None:
        # A token that was rotated also has an end, and looks just like one issued with an end: in
        # both cases the new token inherits that end, and the page says so.
        note = say(
            "The new token has the same limits, and ends with this one: {time}. For one that lasts "
            "longer, issue a token.",
            time=exact_time(token.expires_at_s, context.web.zone),
        )
    name = token.label or token.start
    hours = [(str(each), say("{count} h", count=each)) for each in _GRACE_HOURS]
    form = Form(
        f"{TOKENS}/rotate",
        say("Make a new token"),
        [Field("hours", say("The old one is accepted for"), "select", "24", hours)],
        hidden={"token": token.id, "ends": _end_of(token)},
        note=note,
    )
    title = say("Rotate the token {name}", name=name)
    return context.page(title, [form], crumbs=[Link(say("Tokens"), TOKENS)])


def _end_of(token: Token) -> str:
    """The token's end as the form showed it. A form that is sent twice finds another end: rotating
    has set it, and a second new token would inherit it."""
    return str(token.expires_at_s or "")


async def rotate_act(context: Context) -> Response:
    say, token = context.say, await _rotatable(context)
    hours = context.whole_number("hours", say("The old one is accepted for"))
    if hours not in _GRACE_HOURS:
        raise PageError(400, "There is no such time", "Choose one of the list.")
    if context.form.get("ends", "") != _end_of(token):
        raise PageError(
            409,
            "This token was rotated meanwhile",
            "No other token was made. The new one is shown only once: if it is lost, issue a token "
            "and revoke the lost one.",
        )
    issued = await replace_token(
        context.database,
        context.runtime,
        token,
        hours * 3600,
        day_start_s=context.day_start_s,
        check_maker=partial(check_signed_in, context),
    )
    return await TOKEN_PAGES.show(context, *await new_token(context, issued))
