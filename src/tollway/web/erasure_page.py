"""Erasing the receivers of a shop: its progress in words, and the page on which the owner starts
it."""

from contextlib import suppress
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import Response

from tollway.consent.erasures import Erasure, ErasureUnderWayError, ask_erasure, find_erasure
from tollway.consent.owners import Owner
from tollway.contract.operation import OwnerKind
from tollway.ledger.runtime import Runtime
from tollway.operations.orders.storage import last_change_of
from tollway.store.database import Database
from tollway.web.blocks import Field, Form, Link
from tollway.web.page_errors import PageError
from tollway.web.pages import Web
from tollway.web.sign_in import PasswordChecker, Sessions, TooManyChecksError, Visit
from tollway.web.wording import Say, exact_time, grouped, sentence

HOME = "/owner"
PATH = f"{HOME}/erase"
WHAT = sentence(
    "The name, phone, address and remark of every order, and the labels of all waybills, are "
    "erased for good; labels that are not printed yet cannot be printed any more. Orders, amounts "
    "and totals stay. Orders that come in later are stored as usual."
)
TYPED = sentence("To confirm, type the id of the shop: {id}")
_OTHER_ID = sentence("This is not the id of the shop.")
_WRONG = sentence("The password is wrong.")
# Each one is in the trail, which is kept for good.
_AGAIN_AFTER_S = 600
_TOO_SOON = sentence("They were erased less than 10 minutes ago: try again later.")


def erasure_state(erasure: Erasure | None, zone: ZoneInfo, say: Say) -> str:
    """The progress of an erasure, and what it erased; empty if there was none."""
    if erasure is None:
        return ""
    counts = {name: grouped(count) for name, count in erasure.counts.items()}
    if erasure.finished_at_s is not None:
        return say(
            "Erased {time}, with receivers: orders {orders}, waybills {waybills}, kept answers "
            "{answers}, rejected records {rejected}.",
            time=exact_time(erasure.finished_at_s, zone),
            **counts,
        )
    if erasure.waiting:
        return say(
            "Waybills that wait for their carrier: {count}. Their receivers are erased when it has "
            "answered. All others are erased: orders {orders}, waybills {waybills}.",
            count=grouped(erasure.waiting),
            **counts,
        )
    return say(
        "Receivers are being erased. So far: orders {orders}, waybills {waybills}.", **counts
    )


@dataclass(frozen=True)
class ErasePages:
    """The owner's page: it asks for the shop's id, and for the password again."""

    web: Web[Owner]
    database: Database
    sessions: Sessions[Owner]
    passwords: PasswordChecker

    async def show(self, _: Request, visit: Visit[Owner]) -> Response:
        if visit.person is None:
            return self.web.redirect(HOME)
        return self._form(visit, self._shop(visit))

    async def act(self, request: Request, visit: Visit[Owner]) -> Response:
        form = await self.web.form(request, visit)
        if visit.person is None:
            return self.web.redirect(HOME)
        shop = self._shop(visit)
        if form.get("shop", "").strip() != shop.id:
            return self._form(visit, shop, 400, _OTHER_ID, form.get("shop", ""))
        attempt = await self.sessions.attempt(request, shop.login)
        try:
            found = await self.web.admitted(self.passwords, attempt, form.get("password", ""))
        except TooManyChecksError as error:
            return self._form(visit, shop, 429, error.problem, shop.id)
        if found is None:
            return self._form(visit, shop, 403, _WRONG, shop.id)
        last = await find_erasure(self.database, shop.id)
        may_again_s = 0 if last is None else last.asked_at_s + _AGAIN_AFTER_S
        if last is not None and last.finished_at_s and self.web.now_s() < may_again_s:
            return self._form(visit, shop, 429, _TOO_SOON, shop.id)
        runtime = replace(Runtime(now_s=self.web.now_s), by=f"owner {shop.login}")
        # The form was sent twice, or an operator was faster: the erasure runs already.
        with suppress(ErasureUnderWayError):
            await ask_erasure(self.database, runtime, shop.id, last_change_of)
        return self.web.redirect(f"{HOME}?said=erasing")

    @staticmethod
    def _shop(visit: Visit[Owner]) -> Owner:
        owner = visit.person
        assert owner is not None
        if owner.kind != OwnerKind.SHOP:
            raise PageError(404, "There is no such page", "Your page has all there is.")
        return owner

    def _form(
        self,
        visit: Visit[Owner],
        shop: Owner,
        status: int = 200,
        problem: str = "",
        typed: str = "",
    ) -> Response:
        say = visit.view.say
        form = Form(
            PATH,
            say("Erase receivers"),
            [
                Field("shop", say(TYPED, id=shop.id), value=typed, is_required=True, length_max=64),
                Field(
                    "password",
                    say("Your password"),
                    "password",
                    is_required=True,
                    autocomplete="current-password",
                ),
            ],
            note=say(" ").join((say(WHAT), say("It cannot be undone."))),
            problem=say(problem),
            tone="warn",
            back=Link(say("Go back"), HOME),
        )
        return self.web.page(
            visit,
            say("Erase the receivers of {name}", name=shop.name),
            [form],
            status=status,
            crumbs=[Link(say("Your page"), HOME)],
        )
