"""An account's tokens and members, managed by its own people."""

from starlette.responses import Response

from tollway.identity.people import (
    MEMBER_ROLES,
    Role,
    find_person,
    invite,
    list_members,
    remove_person,
)
from tollway.ledger.tokens import Token, issue_token, list_own_tokens, replace_token, revoke_token
from tollway.ledger.usage import DAY_S
from tollway.web.account_parts import asked_limits, token_form, tokens_table
from tollway.web.area import Context, address
from tollway.web.blocks import Block, Cell, Column, Empty, Field, Form, Link, Notice, Secret, Table
from tollway.web.caller.home import PATH, account_id, own_account
from tollway.web.list_parts import BEGIN, list_part
from tollway.web.new_tokens import new_token
from tollway.web.pages import PageError
from tollway.web.wording import sentence

TOKENS = f"{PATH}/tokens"
MEMBERS = f"{PATH}/members"
_ROLES = {
    Role.OWNER: sentence("owner"),
    Role.DEVELOPER: sentence("developer"),
    Role.READER: sentence("reader"),
}
_GRACE_HOURS = (1, 24, 72, 168)
_SAID = {
    "revoked": sentence("The token is revoked: it is refused from the next call on."),
    "removed": sentence("The member was removed and is signed out."),
}


async def show_tokens(context: Context) -> Response:
    return await _tokens_page(context)


async def _tokens_page(context: Context, *first: Block) -> Response:
    say, own = context.say, account_id(context.person)
    blocks: list[Block] = [*first]
    said = _SAID.get(context.query("said"))
    if said and not first:
        blocks.append(Notice(say(said), "good"))
    rotate = f"{TOKENS}/rotate" if context.person.may_change else ""
    blocks.append(
        await tokens_table(
            context, own, path=TOKENS, kept={}, revoke=f"{TOKENS}/revoke", rotate=rotate
        )
    )
    if context.person.may_change:
        blocks.append(token_form(context, f"{TOKENS}/issue", ""))
    return context.page(say("Tokens"), blocks)


async def issue_act(context: Context) -> Response:
    say = context.say
    days = context.optional_number("days", say("Valid for days"))
    issued = await issue_token(
        context.database,
        context.runtime,
        account_id(context.person),
        kind="test" if context.form.get("kind") == "test" else "live",
        label=context.form.get("label", "")[:100],
        lifetime_s=None if days is None else days * DAY_S,
        limits=asked_limits(context),
        day_start_s=context.day_start_s,
    )
    return await _tokens_page(context, *await new_token(context, issued))


async def _own_token(context: Context) -> Token:
    """A token of this very account: another account's looks as if it did not exist."""
    for each in await list_own_tokens(context.database, account_id(context.person)):
        if each.id == context.form.get("token"):
            return each
    raise PageError(404, "There is no such token", "It may be revoked already.")


async def show_rotation(context: Context) -> Response:
    say, token = context.say, await _own_token(context)
    name = token.label or token.start
    hours = [(str(each), say("{count} h", count=each)) for each in _GRACE_HOURS]
    form = Form(
        f"{TOKENS}/rotate",
        say("Make a new token"),
        [Field("hours", say("The old one is accepted for"), "select", "24", hours)],
        hidden={"token": token.id},
        note=say("The new token has the same limits. Change your program before the old one ends."),
    )
    title = say("Rotate the token {name}", name=name)
    return context.page(title, [form], crumbs=[Link(say("Tokens"), TOKENS)])


async def rotate_act(context: Context) -> Response:
    say, token = context.say, await _own_token(context)
    hours = context.whole_number("hours", say("The old one is accepted for"))
    if hours not in _GRACE_HOURS:
        raise PageError(400, "There is no such time", "Choose one of the list.")
    issued = await replace_token(
        context.database, context.runtime, token, hours * 3600, day_start_s=context.day_start_s
    )
    return await _tokens_page(context, *await new_token(context, issued))


async def revoke_act(context: Context) -> Response:
    say, token = context.say, await _own_token(context)
    name = token.label or token.start
    question = say("Revoke the token “{name}”? Calls with it are refused at once.", name=name)
    asked = context.ask_once(question, say("Revoke"))
    if asked is not None:
        return asked
    await revoke_token(context.database, context.runtime, token.id)
    return context.go(TOKENS, said="revoked")


async def show_members(context: Context) -> Response:
    return await _members_page(context)


async def _members_page(context: Context, *first: Block) -> Response:
    say, own = context.say, account_id(context.person)
    members = [each for each in await list_members(context.database, own) if not each.removed_at_s]
    part = list_part(members, context.query(BEGIN), MEMBERS)
    rows = []
    for each in part.rows:
        is_other = context.person.may_invite and each.id != context.person.id
        href = context.question(f"{MEMBERS}/remove", member=each.id)
        rows.append(
            [
                Cell(each.name),
                Cell(each.login, "mono"),
                Cell(say(_ROLES[each.role])),
                context.time(each.added_at_s),
                Cell(say("Remove"), href=href) if is_other else Cell(""),
            ]
        )
    columns = [say("Member"), say("Login"), say("Role"), say("Added"), ""]
    table = Table(
        [Column(each) for each in columns],
        rows,
        Empty(""),
        older=part.next,
        newest=part.first,
        is_by_name=True,
    )
    blocks: list[Block] = [*first, table]
    said = _SAID.get(context.query("said"))
    if said and not first:
        blocks.insert(0, Notice(say(said), "good"))
    if context.person.may_invite:
        roles = [(each.value, say(_ROLES[each])) for each in MEMBER_ROLES]
        fields = [
            Field("name", say("Name"), is_required=True, length_max=100),
            Field("login", say("Login"), is_required=True, length_max=100),
            Field("role", say("Role"), "select", Role.DEVELOPER, roles),
        ]
        form = Form(
            f"{MEMBERS}/invite",
            say("Make a link"),
            fields,
            title=say("Invite a member"),
            is_line=True,
        )
        blocks.append(form)
    return context.page(say("Members"), blocks)


async def invite_act(context: Context) -> Response:
    say, role = context.say, context.form.get("role", "")
    if role not in MEMBER_ROLES:
        raise PageError(400, "There is no such role", "Choose one of the list.")
    made = await invite(
        context.database,
        context.runtime,
        role=Role(role),
        name=context.form.get("name", "").strip(),
        login=context.form.get("login", ""),
        account_wanted=(await own_account(context)).id,
        day_start_s=context.day_start_s,
    )
    link = f"{context.services.settings.public_address}{address(f'{PATH}/enter', link=made.link)}"
    title = say("Send this link to {name}", name=made.person.name)
    note = say("It signs them in once, within three days. It is not shown again.")
    return await _members_page(context, Secret(title, link, note))


async def remove_act(context: Context) -> Response:
    say = context.say
    member = await find_person(context.database, context.form.get("member", ""))
    is_own = member is not None and member.account_id == context.person.account_id
    if member is None or not is_own or member.removed_at_s or member.id == context.person.id:
        raise PageError(404, "There is no such member", "The members are listed on their page.")
    asked = context.ask_once(
        say("Remove {name}? They are signed out at once.", name=member.name), say("Remove")
    )
    if asked is not None:
        return asked
    await remove_person(context.database, context.runtime, member.id)
    return context.go(MEMBERS, said="removed")
