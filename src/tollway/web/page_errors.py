"""Errors that end a page, and what the reader sees for other exceptions. A refused form is shown
again on its page, with what was typed and what was wrong."""

import logging
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tollway.contract.language import Sentence
from tollway.contract.reasons import Refusal
from tollway.ledger import LedgerError
from tollway.store.database import StoreBusyError, StoreError
from tollway.web.blocks import Block, Columns, Field, Form, Notice
from tollway.web.wording import View, sentence

logger = logging.getLogger("tollway.web")

# The error for a one-time link that no longer works: status, title and text.
UNUSABLE_LINK = (
    410,
    sentence("This link cannot be used"),
    sentence("It was used before, has expired, or is incomplete. Ask for a new one."),
)


class PageError(Exception):
    """Ends a page with a title and a text for its reader, both sentences of the catalogue."""

    def __init__(self, status: int, title: str, text: str, **values: object) -> None:
        super().__init__(title)
        self.status = status
        self.title = title
        self.text = text
        self.values = values
        # The page of a form that was refused before its fields were read.
        self.came_from = ""
        # The fields of the form that may be wrong.
        self.fields: frozenset[str] = frozenset()

    def at(self, *fields: str) -> "PageError":
        """The same error, shown at one of these fields if the form has it."""
        self.fields = frozenset(fields)
        return self


class FormTooOldError(PageError):
    """The sender of a form is not, or no longer, who its page was shown to."""

    def __init__(self, came_from: str) -> None:
        super().__init__(
            403,
            sentence("This form is too old"),
            sentence(
                "It was opened too long ago, or in another session. Go back, load the page again, "
                "and send it again."
            ),
        )
        self.came_from = came_from


def fields_of(sentence: Sentence) -> Iterator[str]:
    """The form fields that a sentence may be about: its values carry the name of their field, or
    are that name, as in "The login must have 3 to 100 printable characters."."""
    for name, value in sentence.values.items():
        yield name
        if isinstance(value, Sentence):
            yield value.template.replace(" ", "_")


def page_error_of(error: Exception, view: View) -> PageError:
    """What the reader sees for any error; the log has more."""
    if isinstance(error, PageError):
        return error
    if isinstance(error, Refusal):
        return PageError(400, "This form cannot be read", error.message(view.language))
    if isinstance(error, LedgerError):
        # The error's own text is for operators, and names commands.
        return PageError(
            409, "That is no longer possible", "Something has changed meanwhile: load it again."
        )
    if isinstance(error, StoreBusyError):
        return PageError(
            503, "Not available at this moment", "The gateway is busy. Try again in a moment."
        )
    if isinstance(error, StoreError):
        logger.error("the database is unavailable: %s", error)
        return PageError(
            503,
            "Not available at this moment",
            "The gateway cannot reach its database. If you are signed in, you stay so.",
        )
    logger.error("a page failed unexpectedly", exc_info=error)
    return PageError(500, "Something went wrong", "It was not your fault. Please try again later.")


# Kinds of field that a page cannot, or must not, fill in again.
_NEVER_KEPT = ("password", "file")


@dataclass(frozen=True)
class RefusedForm:
    """Where a form was sent, what was typed into it, and why it was refused; `wrong` names the
    fields that may be wrong."""

    action: str
    typed: Mapping[str, str]
    problem: str
    wrong: Set[str] = frozenset()

    def shown_in(self, blocks: Sequence[Block]) -> list[Block]:
        """The page with the form as it was sent; if it has no such form, the problem on top."""
        kept = [self._kept(block) for block in blocks]
        return kept if kept != list(blocks) else [Notice(self.problem, "bad"), *blocks]

    def _kept(self, block: Block) -> Block:
        if isinstance(block, Columns):
            return replace(block, blocks=[self._kept(each) for each in block.blocks])
        if isinstance(block, Form) and block.action == self.action:
            is_sent = block.hidden.items() <= self.typed.items()
            return self._filled(block) if is_sent else block
        return block

    def _filled(self, form: Form) -> Form:
        wrong = [number for number, field in enumerate(form.fields) if field.name in self.wrong]
        is_one = len(wrong) == 1
        # The browser scrolls to the field with the focus, however far down it is, or else to the
        # problem above all fields.
        focus = wrong[0] if is_one else None
        fields = [
            replace(
                field,
                value=self._value(field),
                has_focus=number == focus,
                problem=self.problem if number == focus else "",
            )
            for number, field in enumerate(form.fields)
        ]
        return replace(form, fields=fields, problem="" if is_one else self.problem, is_folded=False)

    def _value(self, field: Field) -> str:
        if field.kind in _NEVER_KEPT:
            return ""
        if field.kind == "checks":
            return ",".join(field.ticked(self.typed))
        # A browser does not send an unticked checkbox.
        other = "" if field.kind == "checkbox" else field.value
        return self.typed.get(field.name, other)
