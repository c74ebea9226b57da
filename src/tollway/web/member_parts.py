"""The members of an account as operators and its owners see them: the list, and the acts to invite
members, give them a new link or another role, and remove them."""

from collections.abc import Mapping, Sequence
from functools import partial

from starlette.responses import Response

from tollway.identity.people import (
    MEMBER_ROLES,
    OPERATOR,
    Person,
    Role,
    change_role,
    find_person,
    is_still_signed_in,
    list_members,
    remove_person,
)
from tollway.identity.sign_in_links import Invitation, invite, new_start
from tollway.store.database import Transaction
from tollway.web.area import Context, address
from tollway.web.blocks import Cell, Empty, Field, Form, Link, Secret, Table
from tollway.web.lists import BEGIN, list_part
from tollway.web.page_errors import FormTooOldError, PageError
from tollway.web.wording import CAME_FROM, sentence, titles

REMOVED = sentence("The member was removed and is signed out.")
CHANGED = sentence("Done. The role holds from the member's next page on.")
_ROLES = {
    Role.OWNER: sentence("owner"),
    Role.DEVELOPER: sentence("developer"),
    Role.READER: sentence("reader"),
}


async def members_table(
    context: Context,
    account_id: str,
    *,
    path: str,
    acts: str,
    kept: Mapping[str, str],
    empty: str = "",
) -> Table:
    """The members, page by page. `kept` names the account in an operator's addresses; `acts` is the
    prefix of the addresses of acts."""
    say = context.say
    members = await list_members(context.database, account_id)
    part = list_part(members, context.query(BEGIN), path, kept)
    named = {"account": account_id} if kept else {}
    rows = [
        [
            Cell(each.name),
            Cell(each.login, "mono"),
            Cell(say(_ROLES[each.role])),
            context.time(each.added_at_s),
            *_acts(context, each, acts, named),
        ]
        for each in part.rows
    ]
    return Table(
        [*titles(say, "Member", "Login", "Role", "Added"), "", "", ""],
        rows,
        Empty(empty),
        title=say("Members") if kept else "",
        older=part.next,
        newest=part.first,
        is_by_name=True,
    )


def _acts(context: Context, member: Person, acts: str, named: Mapping[str, str]) -> list[Cell]:
    say, named, of = context.say, {**named, "member": member.id}, member.name
    is_reader = member.id == context.person.id
    if is_reader or not context.person.may_invite:
        return [Cell(say("you") if is_reader else ""), Cell(""), Cell("")]
    return [
        Cell(say("Change role"), "time", address(f"{acts}/role", **named), of=of),
        Cell(say("New link"), "time", context.question(f"{acts}/link", **named), of=of),
        Cell(say("Remove"), "time", context.question(f"{acts}/remove", **named), of=of),
    ]


def invite_form(context: Context, action: str, role: Role, hidden: Mapping[str, str]) -> Form:
    say = context.say
    return Form(
        action,
        say("Make a link"),
        [
            Field("name", say("Full name"), is_required=True, length_max=100),
            Field("login", say("Login"), is_required=True, length_max=100),
            _role_field(context, role),
        ],
        hidden=dict(hidden),
        title=say("Invite a member"),
        note=_roles_note(context),
        is_line=True,
    )


def _role_field(context: Context, role: Role) -> Field:
    say = context.say
    roles = [(each.value, say(_ROLES[each])) for each in MEMBER_ROLES]
    return Field("role", say("Role"), "select", role, roles)


def _roles_note(context: Context) -> str:
    return context.say(
        "A reader only looks, a developer also issues tokens and makes calls, and an owner also "
        "invites and removes members and changes their roles."
    )


def _chosen_role(context: Context) -> Role:
    role = context.form.get("role", "")
    if role not in MEMBER_ROLES:
        raise PageError(400, "There is no such role", "Choose one of the list.").at("role")
    return Role(role)


async def check_signed_in(context: Context, transaction: Transaction) -> None:
    """Refuses an act of a reader who was signed out, or has another role, since the form was read.
    Neither happens until the transaction ends."""
    cookie = context.visit.cookie
    if not await is_still_signed_in(transaction, context.person, cookie, context.now_s):
        raise FormTooOldError(context.form.get(CAME_FROM, ""))


async def invited(context: Context, account_id: str) -> Secret:
    """Invites the person that the form names."""
    made = await invite(
        context.database,
        context.runtime,
        role=_chosen_role(context),
        name=context.form.get("name", "").strip(),
        login=context.form.get("login", ""),
        account_wanted=account_id,
        day_start_s=context.counted_from_s,
        check_maker=partial(check_signed_in, context),
    )
    return sent_link(context, made)


async def given_link(context: Context, account_id: str) -> Secret:
    """A new link for a member, once the reader has confirmed it."""
    say, member = context.say, await _other(context, account_id)
    context.confirm(
        say(
            "Make a new link for {name}? Behind it they choose a new password: the old one, "
            "earlier links and their sessions end at once. A second factor stays.",
            name=member.name,
        ),
        say("Make a link"),
    )
    made = await new_start(
        context.database,
        context.runtime,
        member.id,
        context.counted_from_s,
        check_maker=partial(check_signed_in, context),
    )
    return sent_link(context, made)


async def role_page(
    context: Context, account_id: str, action: str, named: Mapping[str, str], crumbs: Sequence[Link]
) -> Response:
    """The form that gives a member another role; `named` names the account in an operator's
    addresses."""
    say, member = context.say, await _other(context, account_id)
    form = Form(
        action,
        say("Change role"),
        [_role_field(context, member.role)],
        hidden={**named, "member": member.id},
        note=_roles_note(context),
    )
    return context.page(say("Role of {name}", name=member.name), [form], crumbs=crumbs)


async def give_role(context: Context, account_id: str) -> None:
    """Gives a member the role that the form names."""
    member, role = await _other(context, account_id), _chosen_role(context)
    counted_from_s = context.counted_from_s
    await change_role(
        context.database, context.runtime, account_id, member.id, role, counted_from_s
    )


async def remove(context: Context, account_id: str) -> None:
    """Removes a member, once the reader has confirmed it."""
    say, member = context.say, await _other(context, account_id)
    context.confirm(
        say("Remove {name}? They are signed out at once.", name=member.name), say("Remove")
    )
    by_member = bool(context.person.account_id)
    await remove_person(context.database, context.runtime, member.id, keeps_owner=by_member)


async def _other(context: Context, account_id: str) -> Person:
    """A member of this account other than the reader; anyone else is "no such member"."""
    member = await find_person(context.database, context.form.get("member", ""))
    is_other = member is not None and member.id != context.person.id
    if member is None or not is_other or member.account_id != account_id or member.removed_at_s:
        raise PageError(404, "There is no such member", "The members are listed on their page.")
    return member


def sent_link(context: Context, made: Invitation, note: str = "") -> Secret:
    """A link to copy and send; by default one that holds as long as that of an invitation."""
    area = "/operator" if made.person.kind == OPERATOR else "/account"
    return Secret(
        context.say("Send this link to {name}", name=made.person.name),
        context.services.settings.public_address + address(f"{area}/enter", link=made.link),
        note or context.say("It signs them in once, within three days. It is not shown again."),
    )
