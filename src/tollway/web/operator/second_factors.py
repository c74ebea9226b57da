"""The second factors of all people, and resetting one whose device and codes are lost."""

from starlette.responses import Response

from tollway.identity.second_factor import find_factor, list_factors, reset_factor
from tollway.web.area import Context
from tollway.web.blocks import Block, Cell, Empty, Notice, Table
from tollway.web.page_errors import PageError
from tollway.web.wording import sentences

PATH = "/operator/second-factors"
_KINDS = {each: each for each in sentences("operator", "member", "shop", "user")}


async def show_factors(context: Context) -> Response:
    say, rows = context.say, []
    for each in await list_factors(context.database):
        # One's own is turned off with a code, on one's own page.
        is_other = each.subject_id != context.person.id
        reset = context.question(f"{PATH}/reset", kind=each.kind, id=each.subject_id)
        rows.append(
            [
                Cell(say(_KINDS[each.kind])),
                Cell(each.login, "mono"),
                context.time(each.confirmed_at_s),
                context.number(each.recovery_codes),
                Cell(say("Reset"), href=reset) if is_other else Cell(""),
            ]
        )
    titles = sentences("Kind", "Login", "On since", "Recovery codes left")
    blocks: list[Block] = []
    if context.query("said") == "reset":
        blocks.append(
            Notice(say("The second factor is gone: the password alone signs in."), "good")
        )
    empty = Empty(say("There are no second factors yet."))
    columns = [*map(say, titles), ""]
    blocks.append(Table(columns, rows, empty))
    return context.page(say("All second factors"), blocks)


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
    return context.go(PATH, said="reset")
