"""Signing in and out of the areas of operators and of account members, also by a link."""

from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from tollway.identity.passwords import PASSWORD_MAX, PASSWORD_MIN, StoredPassword
from tollway.identity.people import MEMBER, OPERATOR, Person, find_person, password_of
from tollway.identity.sign_in_limits import forget_mistakes
from tollway.identity.sign_in_links import open_link, use_link
from tollway.store.database import Database, Reader
from tollway.web.blocks import Field, Form
from tollway.web.page_errors import UNUSABLE_LINK, PageError
from tollway.web.pages import Web
from tollway.web.second_factor import SecondFactorPages, code_field
from tollway.web.sign_in import (
    WRONG,
    Area,
    PasswordChecker,
    Sessions,
    TooManyChecksError,
    Visit,
    password_length,
)
from tollway.web.wording import is_own_address

OPERATOR_PATH = "/operator"
ACCOUNT_PATH = "/account"


async def _person(kind: str, reader: Reader, session_kind: str, person_id: str) -> Person | None:
    if session_kind != kind:
        return None
    found = await find_person(reader, person_id)
    return None if found is None or found.removed_at_s is not None else found


async def _password(kind: str, reader: Reader, login: str) -> StoredPassword | None:
    return await password_of(reader, kind, login)


OPERATORS = Area("operator", partial(_person, OPERATOR), partial(_password, OPERATOR))
MEMBERS = Area("account", partial(_person, MEMBER), partial(_password, MEMBER))


@dataclass(frozen=True)
class SignInPages:
    """The pages for signing in to one area and out of it."""

    web: Web[Person]
    database: Database
    sessions: Sessions[Person]
    passwords: PasswordChecker
    second_factor: SecondFactorPages[Person]
    home: str
    lead: str
    forgotten: str

    def form(
        self, visit: Visit[Person], back: str, status: int = 200, problem: str = "", login: str = ""
    ) -> Response:
        say, shown = visit.view.say, back if is_own_address(back) else ""
        visit = replace(visit, view=visit.view.at(shown))
        return self.web.render(
            "sign_in.html",
            visit,
            status,
            action=f"{self.home}/sign-in",
            lead=say(self.lead),
            link=back,
            login=login,
            notice="",
            problem=say(problem),
            forgotten=say(self.forgotten),
        )

    async def sign_in(self, request: Request, visit: Visit[Person]) -> Response:
        form = await self.web.form(request, visit)
        back, login = form.get("link", ""), form.get("login", "")
        attempt = await self.sessions.attempt(request, login)
        try:
            found = await self.web.admitted(self.passwords, attempt, form.get("password", ""))
        except TooManyChecksError as error:
            return self.form(visit, back, 429, error.problem, login)
        if found is None:
            return self.form(visit, back, 403, WRONG, login)
        path = back if is_own_address(back) else self.home
        return await self.second_factor.finish(visit, attempt, found, path)

    async def sign_out(self, request: Request, visit: Visit[Person]) -> Response:
        if visit.person is None:
            # The session has already ended, and the form's token with it.
            return self.web.redirect("/")
        await self.web.form(request, visit)
        return self.web.redirect("/", await self.sessions.sign_out(visit, self.web.now_s()))

    async def show_link(self, request: Request, visit: Visit[Person]) -> Response:
        """A page before the link is used, because link previews must not use it up."""
        return await self._link_page(visit, request.query_params.get("link", ""))

    async def _link_page(
        self, visit: Visit[Person], text: str, status: int = 200, problem: str = ""
    ) -> Response:
        say = visit.view.say
        opened = await open_link(self.database, text, self.web.now_s())
        if opened is None:
            raise PageError(*UNUSABLE_LINK)
        fields = []
        if opened.may_choose_password:
            # Both in one form; a link that sets no password asks for the code afterwards.
            fields.append(_password_field(visit, is_required=opened.needs_code))
            if opened.needs_code:
                fields.append(code_field(say))
        shown = Form(
            # With the link, so that the page can be reloaded after a refused password.
            f"{self.home}/enter?{urlencode({'link': text})}",
            say("Sign in"),
            fields,
            hidden={"link": text},
            note=say(
                "The link signs you in once, with the login {login}.", login=opened.person.login
            ),
            problem=problem,
        )
        visit = replace(visit, view=visit.view.at())
        title = say("Welcome, {name}", name=opened.person.name)
        return self.web.page(visit, title, [shown], status=status)

    async def enter(self, request: Request, visit: Visit[Person]) -> Response:
        form = await self.web.form(request, visit)
        text, password = form.get("link", ""), form.get("password", "")
        if password and not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
            return await self._link_page(visit, text, 400, password_length(visit.view.say))
        opened = await open_link(self.database, text, self.web.now_s())
        if opened is None or opened.person.kind != self._kind:
            raise PageError(*UNUSABLE_LINK)
        password_hash, needs_code = None, bool(password) and opened.needs_code
        if password:
            if not opened.may_choose_password:
                raise PageError(
                    409,
                    "This link changes no password",
                    "You have a password. Open the link again and sign in.",
                )
            if needs_code:
                wrong = await self.second_factor.problem_with(
                    request, opened.person, form.get("code", "")
                )
                if wrong is not None:
                    return await self._link_page(visit, text, wrong[0], visit.view.say(wrong[1]))
            async with self.web.without_slot():
                password_hash = await self.passwords.hashed(password, opened.person.id)
        found = await use_link(
            self.database, text, password_hash, self.web.now_s(), has_shown_code=needs_code
        )
        if found is None:
            raise PageError(*UNUSABLE_LINK)
        attempt = await self.sessions.attempt(request, found.login)
        if password_hash is not None:
            await forget_mistakes(self.database, attempt)
        who = await self.sessions.area.password(self.database, found.login)
        who = who or StoredPassword(found.kind, found.id, "")
        if needs_code:
            return await self.second_factor.let_in_with_code(request, found, who, self.home)
        return await self.second_factor.finish(visit, attempt, who, self.home)

    @property
    def _kind(self) -> str:
        return OPERATOR if self.home == OPERATOR_PATH else MEMBER


def _password_field(visit: Visit[Person], *, is_required: bool) -> Field:
    say = visit.view.say
    return Field(
        "password",
        say("Choose a password"),
        kind="password",
        help=say(
            "At least {least} characters. Without one you need a new link next time.",
            least=PASSWORD_MIN,
        ),
        is_required=is_required,
        length_max=PASSWORD_MAX,
        autocomplete="new-password",
    )
