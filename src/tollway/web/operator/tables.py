"""What the pages of operators share."""

import re

from tollway.ledger import LedgerError
from tollway.ledger.accounts import Account, find_account
from tollway.ledger.entries import NOTE_MAX, checked_note
from tollway.ledger.trail import note_act
from tollway.web.area import Context
from tollway.web.blocks import Cell, Empty, Field, Table
from tollway.web.page_errors import PageError


def plain_table(
    context: Context,
    titles: tuple[str, ...],
    rows: list[list[Cell]],
    title: str = "",
    none: str = "",
    command: str = "",
) -> Table:
    """A table that says in `none` why there are no rows, and which command makes one."""
    say = context.say
    empty = Empty(none or say("There is nothing here yet."), command=command)
    return Table([*map(say, titles)], rows, empty, title)


def written_list(text: str) -> list[str]:
    """A list separated by spaces or commas, also Chinese ones."""
    return [each for each in re.split(r"[\s,，、]+", text) if each]


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


def reason_field(context: Context) -> Field:
    """The reason for a change of a balance."""
    return Field("note", context.say("Reason"), is_required=True, length_max=NOTE_MAX)


def given_reason(context: Context) -> str:
    """The reason from `reason_field`; people must give one, programs need not."""
    try:
        note = checked_note(context.form.get("note", ""))
    except LedgerError as error:
        text = context.said(error.sentence)
        raise PageError(409, "That is not possible", text).at("note") from None
    if not note:
        raise PageError(
            400, "A reason is missing", "Fill in the field {field}.", field=context.say("Reason")
        ).at("note")
    return note


async def record(context: Context, act: str, subject: str, after: object = None) -> None:
    """Records an act in the trail that has no transaction of its own to do so."""
    await note_act(context.database, context.runtime, act, subject, after)
