"""The people who run the gateway: inviting them by a link, signing them in by another, removing
them; and everyone's second factors, for resetting one whose device and codes are lost."""

from functools import partial

from starlette.responses import Response

from tollway.identity.people import (
    OPERATOR,
    Person,
    Role,
    find_person,
    operators_page,
    remove_person,
)
from tollway.identity.second_factor import (
    factors_of_login,
    factors_page,
    find_factor,
    reset_factor,
)
from tollway.identity.sign_in_links import invite, new_link
from tollway.web.area import PAGE_ROWS, Context
from tollway.web.blocks import Block, Cell, Empty, Field, Filters, Form, Table
from tollway.web.lists import page_part
from tollway.web.member_parts import check_signed_in, sent_link
from tollway.web.page_errors import PageError
from tollway.web.wording import sentence, sentences, titles

PATH = "/operator/operators"
FACTORS = "/operator/second-factors"
_KINDS = {each: each for each in sentences("operator", "member", "shop", "user")}
_LINK_S = 3600
_REMOVED = {"removed": sentence("Removed. They are signed out, and can no longer sign in.")}
_RESET = {"reset": sentence("The second factor is gone: the password alone signs in.")}


async def show_operators(context: Context, *first: Block) -> Response:
    say = context.say
    after = context.query("after")
    found = await operators_page(context.database, after, PAGE_ROWS + 1)
    part = page_part(found, after, PATH, lambda last: last.login)
    table = Table(
        [*titles(say, "Operator", "Login", "Added"), "", ""],
        [_row(context, each) for each in part.rows],
        older=part.next,
        newest=part.first,
        is_by_name=True,
    )
    form = Form(
        f"{PATH}/invite",
        say("Make a link"),
        [
            Field("name", say("Full name"), is_required=True, length_max=100),
            Field("login", say("Login"), is_required=True, length_max=100),
        ],
        title=say("Invite an operator"),
        note=say("An operator may do everything that these pages can."),
        is_line=True,
    )
    return context.page(say("Operators"), [*context.reported(_REMOVED, *first), table, form])


def _row(context: Context, person: Person) -> list[Cell]:
    say = context.say
    is_other = person.id != context.person.id
    link, remove = (
        context.question(f"{PATH}/{each}", person=person.id) for each in ("link", "remove")
    )
    return [
        Cell(person.name),
        Cell(person.login, "mono"),
        context.time(person.added_at_s),
        Cell(say("New link"), href=link, of=person.name) if is_other else Cell(say("you")),
        Cell(say("Remove"), href=remove, of=person.name) if is_other else Cell(""),
    ]


async def _other(context: Context) -> Person:
    found = await find_person(context.database, context.form.get("person", ""))
    is_operator = found is not None and found.kind == OPERATOR and found.removed_at_s is None
    if found is None or not is_operator or found.id == context.person.id:
        raise PageError(404, "There is no such operator", "They may be removed already.")
    return found


async def invite_act(context: Context) -> Response:
    form = context.form
    made = await invite(
        context.database,
        context.runtime,
        role=Role.OPERATOR,
        name=form.get("name", "").strip(),
        login=form.get("login", ""),
        check_maker=partial(check_signed_in, context),
    )
    return await show_operators(context, sent_link(context, made))


async def link_act(context: Context) -> Response:
    say, person = context.say, await _other(context)
    context.confirm(
        say(
            "Make a link that signs {name} in, once, within the hour? Earlier links end.",
            name=person.name,
        ),
        say("Make a link"),
    )
    made = await new_link(context.database, context.runtime, person.id, _LINK_S)
    note = say("It signs them in once, within the hour. It is not shown again.")
    return await show_operators(context, sent_link(context, made, note))


async def remove_act(context: Context) -> Response:
    say, person = context.say, await _other(context)
    context.confirm(
        say("Take the access of {name} away, at once?", name=person.name), say("Remove")
    )
    await remove_person(context.database, context.runtime, person.id)
    return context.go(PATH, said="removed")


async def show_factors(context: Context) -> Response:
    say, rows, login = context.say, [], context.query("q")
    kind, _, after_login = context.query("after").partition(":")
    after = (after_login, kind) if kind in _KINDS else None
    if login:
        found = await factors_of_login(context.database, login)
    else:
        found = await factors_page(context.database, after or ("", ""), PAGE_ROWS + 1)
    part = page_part(found, after, FACTORS, lambda last: f"{last.kind}:{last.login}")
    for each in part.rows:
        # Operators turn their own off with a code, on their own page.
        is_other = each.subject_id != context.person.id
        reset = context.question(f"{FACTORS}/reset", kind=each.kind, id=each.subject_id)
        rows.append(
            [
                Cell(say(_KINDS[each.kind])),
                Cell(each.login, "mono"),
                context.time(each.confirmed_at_s),
                context.number(each.recovery_codes),
                Cell(say("Reset"), href=reset, of=each.login) if is_other else Cell(""),
            ]
        )
    none = say("No second factor matches.") if login else say("There are no second factors yet.")
    columns = titles(say, "Kind", "Login", "On since", "Recovery codes left")
    table = Table(
        [*columns, ""],
        rows,
        Empty(none),
        filters=Filters(FACTORS, [Field("q", say("Login"), "search", login)]),
        older=part.next,
        newest=part.first,
        is_by_name=True,
    )
    return context.page(say("All second factors"), [*context.reported(_RESET), table])


async def reset_act(context: Context) -> Response:
    say, form = context.say, context.form
    found = await find_factor(context.database, form.get("kind", ""), form.get("id", ""))
    if found is None or found.subject_id == context.person.id:
        raise PageError(404, "There is no such second factor", "The list has all there are.")
    question = say(
        "Take the second factor of {login} away? Be sure that it is this person who asks.",
        login=found.login,
    )
    context.confirm(question, say("Reset"))
    await reset_factor(context.database, context.runtime, found.holder)
    return context.go(FACTORS, said="reset")
