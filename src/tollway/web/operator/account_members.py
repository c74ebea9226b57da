"""The members of an account on the pages of operators: the list, and the acts on them."""

from starlette.responses import Response

from tollway.identity.people import Role
from tollway.ledger.accounts import Account
from tollway.web.area import Context
from tollway.web.blocks import Block
from tollway.web.member_parts import (
    give_role,
    given_link,
    invite_form,
    invited,
    members_table,
    remove,
    role_page,
)
from tollway.web.operator.account_tabs import (
    MEMBERS,
    ONE,
    account_crumbs,
    find_wanted,
    tab_page,
)

MEMBER = f"{ONE}/member"


async def show_members(context: Context) -> Response:
    return await _members_page(context, await find_wanted(context))


async def _members_page(context: Context, account: Account, *first: Block) -> Response:
    say, is_open = context.say, account.closed_at_s is None
    none = say("No member can sign in yet: invite the owner of the account.")
    blocks: list[Block] = [
        await members_table(
            context,
            account.id,
            path=MEMBERS,
            acts=MEMBER,
            kept={"id": account.id},
            empty=none if is_open else say("There is nothing here yet."),
        )
    ]
    if is_open:
        blocks.append(invite_form(context, f"{ONE}/invite", Role.OWNER, {"account": account.id}))
    return tab_page(context, account, MEMBERS, blocks, *first)


async def invite_act(context: Context) -> Response:
    account = await find_wanted(context)
    return await _members_page(context, account, await invited(context, account.id))


async def link_act(context: Context) -> Response:
    account = await find_wanted(context)
    return await _members_page(context, account, await given_link(context, account.id))


async def show_role(context: Context) -> Response:
    account = await find_wanted(context)
    named, crumbs = {"account": account.id}, account_crumbs(context, account, MEMBERS)
    return await role_page(context, account.id, f"{MEMBER}/role", named, crumbs)


async def role_act(context: Context) -> Response:
    account = await find_wanted(context)
    await give_role(context, account.id)
    return context.go(MEMBERS, id=account.id, said="role")


async def remove_act(context: Context) -> Response:
    account = await find_wanted(context)
    await remove(context, account.id)
    return context.go(MEMBERS, id=account.id, said="removed")
