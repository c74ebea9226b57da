"""The second factor on pages: the code after the password, and the page on which a person sets a
factor up or turns it off. The same for owners, operators and members of accounts."""

import hashlib
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tollway.carriers.labels.qr_code import QUIET_MODULES, qr_modules, qr_path
from tollway.consent.links import TokenSigner
from tollway.identity.passwords import StoredPassword
from tollway.identity.people import MEMBER, OPERATOR
from tollway.identity.second_factor import (
    RECOVERY_CODES,
    Holder,
    begin_factor,
    confirm_factor,
    device_address,
    end_factor,
    find_factor,
    secret_text,
    unconfirmed_secret,
    use_code,
)
from tollway.identity.sessions import ChangedMeanwhileError, start_session
from tollway.identity.sign_in_limits import (
    Attempt,
    TooManyAttemptsError,
    count_attempt,
    forget_attempts,
)
from tollway.ledger.runtime import Runtime
from tollway.store.clock import common_s
from tollway.store.database import Database
from tollway.store.sealing import Sealer
from tollway.web.blocks import Block, Cell, Code, Drawing, Facts, Field, Form, Link, Notice
from tollway.web.page_errors import PageError
from tollway.web.pages import Named, Web
from tollway.web.sign_in import TOO_MANY, Sessions, Visit
from tollway.web.wording import Say, exact_time, sentence

_WRONG_CODE = sentence("This code is wrong, or was used before. Wait for the next one.")
_SAID = {"off": sentence("The second factor is off: your password alone signs in.")}
# The time between the password and the code.
_TICKET_S = 5 * 60
_CODE_MAX = 40


class Someone(Named, Protocol):
    """A person of any area."""

    @property
    def kind(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def login(self) -> str: ...


P = TypeVar("P", bound=Someone)


class _Ticket(msgspec.Struct, frozen=True, array_like=True):
    """Proof that a browser has sent the right password, and where it goes after the code."""

    area: str
    kind: str
    subject_id: str
    login: str
    browser: str
    password: str
    path: str
    expires_at_s: int


class SecondFactorPages(Generic[P]):
    """Ends a sign-in with a code, and shows a person the state of their second factor."""

    def __init__(
        self,
        web: Web[P],
        database: Database,
        sessions: Sessions[P],
        sealer: Sealer,
        secret: bytes,
        home: str,
        more: Link | None = None,
    ) -> None:
        self._web = web
        self._database = database
        self._sessions = sessions
        self._sealer = sealer
        self._signer = TokenSigner(secret, "second factor")
        self._home = home
        self._more = more
        self._own, self._code = f"{home}/second-factor", f"{home}/sign-in/code"

    def routes(self) -> list[Route]:
        async def go_home(_: Request, __: Visit[P]) -> Response:
            return self._web.redirect(self._home)

        return [
            self._web.route(self._own, self._show, self._act),
            self._web.route(self._code, go_home, self._check),
        ]

    async def finish(
        self, visit: Visit[P], attempt: Attempt, found: StoredPassword, path: str
    ) -> Response:
        """After the password: asks for a code, or signs in a person who has no second factor."""
        if await find_factor(self._database, found.kind, found.subject_id) is None:
            return await self.let_in(attempt, found, path)
        ticket = _Ticket(
            self._sessions.area.name,
            found.kind,
            found.subject_id,
            attempt.login,
            _mark(visit.cookie),
            _mark(found.password_hash),
            path,
            int(self._web.now_s()) + _TICKET_S,
        )
        return self._ask(visit, self._signer.sign(ticket))

    async def let_in(
        self, attempt: Attempt, found: StoredPassword, path: str, factor_at_s: int = 0
    ) -> Response:
        """Signs in a person who has passed every check."""
        response = self._web.redirect(path)
        try:
            await self._sessions.sign_in(response, attempt, found, self._web.now_s(), factor_at_s)
        except ChangedMeanwhileError:
            raise PageError(
                403, "Sign in again", "Your password or second factor was changed meanwhile."
            ) from None
        return response

    async def let_in_with_code(
        self, request: Request, person: Someone, found: StoredPassword, path: str
    ) -> Response:
        """Signs in a person whose code came with the form; the browser is known from then on."""
        factor_at_s = await self._factor_at_s(_holder(person))
        attempt = await self._sessions.attempt(request, person.login, factor_at_s)
        return await self.let_in(attempt, found, path, factor_at_s)

    def _ask(self, visit: Visit[P], ticket: str, status: int = 200, problem: str = "") -> Response:
        say = visit.view.say
        form = Form(
            self._code,
            say("Sign in"),
            [code_field(say, has_focus=True)],
            hidden={"ticket": ticket},
            note=say("Type the code that your device shows now, or one of your recovery codes."),
            problem=say(problem),
        )
        return self._web.page(visit, say("Your second factor"), [form], status=status)

    async def _check(self, request: Request, visit: Visit[P]) -> Response:
        form = await self._web.form(request, visit)
        text = form.get("ticket", "")
        ticket = self._signer.read(text, _Ticket)
        found = await self._found(ticket, visit)
        if ticket is None or found is None:
            raise PageError(403, "Sign in again", "The time for the code is over.")
        holder = Holder(ticket.kind, ticket.subject_id, ticket.login)
        factor_at_s = await self._factor_at_s(holder)
        attempt = await self._sessions.attempt(request, ticket.login, factor_at_s)
        try:
            is_right = await self._is_right(attempt, holder, form.get("code", ""))
        except TooManyAttemptsError:
            return self._ask(visit, text, 429, TOO_MANY)
        if not is_right:
            return self._ask(visit, text, 403, _WRONG_CODE)
        return await self.let_in(attempt, found, ticket.path, factor_at_s)

    async def problem_with(
        self, request: Request, person: Someone, code: str
    ) -> tuple[int, str] | None:
        """Why the code in a form is not accepted, with the HTTP status; None if it is, and then the
        code is used up."""
        holder = _holder(person)
        factor_at_s = await self._factor_at_s(holder)
        attempt = await self._sessions.attempt(request, person.login, factor_at_s)
        try:
            is_right = await self._is_right(attempt, holder, code)
        except TooManyAttemptsError:
            return 429, TOO_MANY
        return None if is_right else (403, _WRONG_CODE)

    async def _factor_at_s(self, holder: Holder) -> int:
        found = await find_factor(self._database, holder.kind, holder.subject_id)
        return 0 if found is None else found.confirmed_at_s

    async def _found(self, ticket: _Ticket | None, visit: Visit[P]) -> StoredPassword | None:
        """Whose ticket this is; None if it is another browser's, has expired, or the password has
        changed since."""
        if ticket is None or ticket.area != self._sessions.area.name:
            return None
        if ticket.browser != _mark(visit.cookie) or ticket.expires_at_s <= self._web.now_s():
            return None
        found = await self._sessions.area.password(self._database, ticket.login)
        found = found or StoredPassword(ticket.kind, ticket.subject_id, "")
        is_same = (found.kind, found.subject_id) == (ticket.kind, ticket.subject_id)
        return found if is_same and ticket.password == _mark(found.password_hash) else None

    async def _is_right(self, attempt: Attempt, holder: Holder, code: str) -> bool:
        """Attempts with codes are limited like those with passwords, in a count of their own, and
        counted before the code is checked."""
        counted = attempt._replace(kind=f"{attempt.kind} code")
        now_s = await common_s(self._database, self._web.now_s())
        await count_attempt(self._database, counted, now_s, is_code=True)
        if len(code) > _CODE_MAX or not await use_code(
            self._database, self._sealer, holder, code, now_s
        ):
            return False
        await forget_attempts(self._database, counted)
        return True

    async def _show(self, request: Request, visit: Visit[P]) -> Response:
        if visit.person is None:
            return self._web.redirect(self._home)
        said = _SAID.get(request.query_params.get("said", ""))
        first = [Notice(visit.view.say(said), "good")] if said else []
        return await self._own_page(visit, visit.person, first)

    async def _act(self, request: Request, visit: Visit[P]) -> Response:
        form = await self._web.form(request, visit)
        person = visit.person
        if person is None:
            return self._web.redirect(self._home)
        holder = _holder(person)
        if form.get("step") == "begin":
            secret = await begin_factor(self._database, self._sealer, holder)
            return self._setting_up(visit, holder, secret)
        if form.get("step") == "confirm":
            attempt = await self._sessions.attempt(request, person.login)
            return await self._confirm(visit, person, attempt, form.get("code", ""))
        found = await self.problem_with(request, person, form.get("code", ""))
        if found is not None:
            status, problem = found
            return await self._own_page(visit, person, problem=problem, status=status)
        await end_factor(self._database, self._runtime(person), holder)
        return self._web.redirect(f"{self._own}?said=off")

    async def _confirm(self, visit: Visit[P], person: P, attempt: Attempt, code: str) -> Response:
        say, holder = visit.view.say, _holder(person)
        now_s = await common_s(self._database, self._web.now_s())
        # No browser is known yet, because none has sent a code of this factor.
        counted = attempt._replace(kind=f"{attempt.kind} confirm", device="")
        codes, problem, status = None, _WRONG_CODE, 403
        try:
            await count_attempt(self._database, counted, now_s, is_code=True)
            codes = await confirm_factor(
                self._database, self._runtime(person), self._sealer, holder, code, now_s
            )
        except TooManyAttemptsError:
            problem, status = TOO_MANY, 429
        if codes is None:
            secret = await unconfirmed_secret(self._database, self._sealer, holder)
            if secret is None:
                return self._web.redirect(self._own)
            return self._setting_up(visit, holder, secret, say(problem), status)
        # The count per login stays, to limit how often a person can set a factor up and turn it off
        # with a recovery code: the trail keeps both acts for ever.
        await forget_attempts(self._database, counted, "address")
        # All sessions have ended, also those of other browsers: this browser gets a new one.
        cookie = await start_session(self._database, person.kind, person.id, self._web.now_s())
        visit = Visit(cookie, person, view=visit.view)
        note = say(
            "From now on a code is asked for after your password. Other browsers are signed out."
        )
        lost = say(
            "Each signs you in once, without the device. Keep them where you keep no password: "
            "they are not shown again."
        )
        blocks: list[Block] = [
            Notice(note, "good", Link(say("Back to the start"), self._home)),
            Code(say("Your recovery codes"), [(lost, "\n".join(codes))]),
        ]
        response = self._web.page(visit, say("The second factor is on"), blocks)
        self._sessions.remember(response, visit)
        await self._sessions.remember_device(response, person.login, now_s)
        return response

    def _setting_up(
        self, visit: Visit[P], holder: Holder, secret: bytes, problem: str = "", status: int = 200
    ) -> Response:
        say = visit.view.say
        drawing = _qr_drawing(device_address(secret, holder), say("QR code"))
        text = say("Or type this secret into it: {secret}", secret=secret_text(secret))
        form = Form(
            self._own,
            say("Turn on"),
            [code_field(say, has_focus=bool(problem))],
            hidden={"step": "confirm"},
            note=say("Then type the code that it shows."),
            problem=problem,
        )
        title = say("Scan this with an app for codes")
        blocks: list[Block] = [Drawing(title, drawing, text), form]
        visit = replace(visit, view=visit.view.at())
        return self._web.page(visit, say("Set up a second factor"), blocks, status=status)

    async def _own_page(
        self,
        visit: Visit[P],
        person: P,
        first: list[Notice] | None = None,
        *,
        problem: str = "",
        status: int = 200,
    ) -> Response:
        say = visit.view.say
        found = await find_factor(self._database, person.kind, person.id)
        blocks: list[Block] = [*(first or [])]
        if found is None:
            note = say(
                "With it, a stolen password does not sign in: a code from an app on your phone is "
                "asked for too."
            )
            blocks.append(Form(self._own, say("Set it up"), hidden={"step": "begin"}, note=note))
        else:
            left = say("{left} of {all}", left=found.recovery_codes, all=RECOVERY_CODES)
            since = exact_time(found.confirmed_at_s, self._web.zone)
            facts = [(say("On since"), Cell(since)), (say("Recovery codes left"), Cell(left))]
            blocks.append(Facts(facts))
            blocks.append(self._turning_off(say, problem))
        actions = [self._more._replace(text=say(self._more.text))] if self._more else []
        title = say("Your second factor")
        visit = replace(visit, view=visit.view.at())
        return self._web.page(visit, title, blocks, status=status, actions=actions)

    def _turning_off(self, say: Say, problem: str) -> Form:
        return Form(
            self._own,
            say("Turn off"),
            [code_field(say, has_focus=bool(problem))],
            hidden={"step": "off"},
            title=say("Turn it off"),
            note=say("To have new recovery codes or another device, turn it off and on again."),
            problem=say(problem),
            tone="warn",
        )

    def _runtime(self, person: P) -> Runtime:
        """The trail records operators and members, not what owners do on their own pages."""
        is_recorded = person.kind in (OPERATOR, MEMBER)
        return Runtime(self._web.now_s, by=f"{person.kind} {person.login}" if is_recorded else "")


def _holder(person: Someone) -> Holder:
    return Holder(person.kind, person.id, person.login)


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def code_field(say: Say, *, has_focus: bool = False) -> Field:
    return Field(
        "code",
        say("One-time code"),
        is_required=True,
        length_max=_CODE_MAX,
        autocomplete="one-time-code",
        has_focus=has_focus,
    )


def _qr_drawing(text: str, label: str) -> Markup:
    modules = qr_modules(text)
    side = modules.side + 2 * QUIET_MODULES
    return Markup(
        '<svg width="240" height="240" viewBox="0 0 {side} {side}" role="img" aria-label="{label}" '
        'shape-rendering="crispEdges"><rect width="{side}" height="{side}" fill="#fff"/>'
        '<path d="{path}" fill="#000"/></svg>'
    ).format(side=side, label=label, path=qr_path(modules))
