"""The members of an account as operators and its owners see them: the list, and the acts to invite
members, give them a new link or another role, and remove them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
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
from tollway.ledger.accounts import Account
from tollway.store.database import Transaction
from tollway.web.account_parts import named_account
from tollway.web.area import Context, PageSpec, address
from tollway.web.blocks import Block, Cell, Empty, Field, Form, Link, Secret, Table
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


@dataclass(frozen=True)
class MemberPages:
    """The list of an account's members and the acts on them, as the pages of one area."""

    # Whose members a request is about; a page of that account, below what an act shows; and the
    # links to a page above it.
    account: Callable[[Context], Awaitable[Account]]
    page: Callable[..., Response]
    crumbs: Callable[[Context, Account, str], list[Link]]
    path: str
    # The prefix of the addresses of acts, and where an invitation is sent.
    acts: str
    invite: str
    # The role that the form for invitations begins with.
    role: Role

    def specs(self) -> list[PageSpec]:
        acts = self.acts
        return [
            PageSpec(self.path, self.show),
            PageSpec(self.invite, act=self._invite, needs_owner=True),
            PageSpec(f"{acts}/link", self._link, self._link, needs_owner=True),
            PageSpec(f"{acts}/role", self._show_role, self._give_role, needs_owner=True),
            PageSpec(f"{acts}/remove", self._remove, self._remove, needs_owner=True),
        ]

    async def show(self, context: Context, *first: Block) -> Response:
        say, account = context.say, await self.account(context)
        is_open = account.closed_at_s is None
        part = list_part(
            await list_members(context.database, account.id),
            context.query(BEGIN),
            self.path,
            named_account(context, account.id),
        )
        rows = [
            [
                Cell(each.name),
                Cell(each.login, "mono"),
                Cell(say(_ROLES[each.role])),
                context.time(each.added_at_s),
                *self._acts(context, account, each),
            ]
            for each in part.rows
        ]
        none = say("No member can sign in yet: invite the owner of the account.")
        table = Table(
            [*titles(say, "Member", "Login", "Role", "Added"), "", "", ""],
            rows,
            Empty(none if is_open else say("There is nothing here yet.")),
            title="" if context.person.account_id else say("Members"),
            older=part.next,
            newest=part.first,
            is_by_name=True,
        )
        forms = []
        if context.person.may_invite and is_open:
            forms.append(self._invite_form(context, account))
        return self.page(context, account, self.path, [table, *forms], *first)

    def _acts(self, context: Context, account: Account, member: Person) -> list[Cell]:
        say, of = context.say, member.name
        is_reader = member.id == context.person.id
        if is_reader or not context.person.may_invite:
            return [Cell(say("you") if is_reader else ""), Cell(""), Cell("")]
        named = {**named_account(context, account.id, "account"), "member": member.id}
        role = address(f"{self.acts}/role", **named)
        link, remove = (
            context.question(f"{self.acts}/{each}", **named) for each in ("link", "remove")
        )
        return [
            Cell(say("Change role"), "time", role, of=of),
            Cell(say("New link"), "time", link, of=of),
            Cell(say("Remove"), "time", remove, of=of),
        ]

    def _invite_form(self, context: Context, account: Account) -> Form:
        say = context.say
        return Form(
            self.invite,
            say("Make a link"),
            [
                Field("name", say("Full name"), is_required=True, length_max=100),
                Field("login", say("Login"), is_required=True, length_max=100),
                _role_field(context, self.role),
            ],
            hidden=named_account(context, account.id, "account"),
            title=say("Invite a member"),
            note=_roles_note(context),
            is_line=True,
        )

    async def _invite(self, context: Context) -> Response:
        account = await self.account(context)
        made = await invite(
            context.database,
            context.runtime,
            role=_chosen_role(context),
            name=context.form.get("name", "").strip(),
            login=context.form.get("login", ""),
            account_wanted=account.id,
            day_start_s=context.counted_from_s,
            check_maker=partial(check_signed_in, context),
        )
        return await self.show(context, sent_link(context, made))

    async def _link(self, context: Context) -> Response:
        """A new link for a member, once the reader has confirmed it."""
        say, (_, member) = context.say, await self._other(context)
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
        return await self.show(context, sent_link(context, made))

    async def _show_role(self, context: Context) -> Response:
        """The form that gives a member another role."""
        say, (account, member) = context.say, await self._other(context)
        form = Form(
            f"{self.acts}/role",
            say("Change role"),
            [_role_field(context, member.role)],
            hidden={**named_account(context, account.id, "account"), "member": member.id},
            note=_roles_note(context),
        )
        crumbs = self.crumbs(context, account, self.path)
        return context.page(say("Role of {name}", name=member.name), [form], crumbs=crumbs)

    async def _give_role(self, context: Context) -> Response:
        account, member = await self._other(context)
        role, counted_from_s = _chosen_role(context), context.counted_from_s
        await change_role(
            context.database, context.runtime, account.id, member.id, role, counted_from_s
        )
        return context.go(self.path, **named_account(context, account.id), said="role")

    async def _remove(self, context: Context) -> Response:
        say, (account, member) = context.say, await self._other(context)
        by_member = bool(context.person.account_id)
        context.confirm(
            say("Remove {name}? They are signed out at once.", name=member.name), say("Remove")
        )
        await remove_person(context.database, context.runtime, member.id, keeps_owner=by_member)
        return context.go(self.path, **named_account(context, account.id), said="removed")

    async def _other(self, context: Context) -> tuple[Account, Person]:
        """The account, and a member other than the reader; anyone else is "no such member"."""
        account = await self.account(context)
        member = await find_person(context.database, context.form.get("member", ""))
        is_other = member is not None and member.id != context.person.id
        if member is None or not is_other or member.account_id != account.id or member.removed_at_s:
            raise PageError(404, "There is no such member", "The members are listed on their page.")
        return account, member


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


def sent_link(context: Context, made: Invitation, note: str = "") -> Secret:
    """A link to copy and send; by default one that holds as long as that of an invitation."""
    area = "/operator" if made.person.kind == OPERATOR else "/account"
    return Secret(
        context.say("Send this link to {name}", name=made.person.name),
        context.services.settings.public_address + address(f"{area}/enter", link=made.link),
        note or context.say("It signs them in once, within three days. It is not shown again."),
    )
