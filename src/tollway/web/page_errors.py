"""Errors that end a page, and what its reader gets to read for others."""

import logging

from tollway.contract.reasons import Refusal
from tollway.ledger import LedgerError
from tollway.store.database import StoreBusyError, StoreError
from tollway.web.wording import View, sentence

logger = logging.getLogger("tollway.web")

# What ends the page of a link that works once: status, title and text.
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
        # The page of the form that was refused before its fields were looked at.
        self.came_from = ""
        # The fields of the form that may be wrong.
        self.fields: frozenset[str] = frozenset()

    def at(self, *fields: str) -> "PageError":
        """The same, shown at the field of the form, if it has one of these."""
        self.fields = frozenset(fields)
        return self


def page_error_of(error: Exception, view: View) -> PageError:
    """What a reader gets for any error; the log has more."""
    if isinstance(error, PageError):
        return error
    if isinstance(error, Refusal):
        return PageError(400, "This form cannot be read", error.message(view.language))
    if isinstance(error, LedgerError):
        # Its text is for the operator, and names commands.
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
