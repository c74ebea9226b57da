"""What every page shares: rendering, forms, errors, and the headers that keep it safe."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime
from time import time
from typing import Generic, NamedTuple, Protocol, TypeVar, Unpack
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from tollway.contract.reasons import Refusal
from tollway.contract.request_parsing import read_form
from tollway.identity.passwords import StoredPassword
from tollway.identity.sign_in_limits import Attempt
from tollway.store.concurrency import TurnSlots
from tollway.store.database import StoreBusyError
from tollway.store.loop_share import LoopTime
from tollway.web.blocks import NO_MORE, Block, Form, Link, MoreOfPage, Notice
from tollway.web.page_errors import FormTooOldError, PageError, page_error_of
from tollway.web.page_slots import PageSlots
from tollway.web.sign_in import PasswordChecker, Sessions, Visit
from tollway.web.template_environment import page_templates
from tollway.web.uploads import read_body
from tollway.web.wording import (
    CAME_FROM,
    LANGUAGE_COOKIE,
    LANGUAGES,
    THEME_COOKIE,
    THEMES,
    Say,
    View,
    is_own_address,
    sentence,
    view_of,
)

_BODY_MAX = 16_384
# For people who are signed in: in a corrected record, each Chinese character takes nine bytes. A
# browser cuts what is pasted to the length of its field, and says nothing: fields for long texts
# have this length, so that what does not fit is refused.
FORM_BYTES_MAX = 131_072
# Rendering a page blocks the event loop as long as a few calls do. With few slots, a crowd of
# readers queues up and does not delay calls; addresses take turns, so none delays the others.
_PAGES_AT_ONCE = 2
_PAGE_WAIT_S = 3.0
# A file has thousands of rows, all of them in memory.
_FILES_AT_ONCE = 1
_FILE_WAIT_S = 30.0
_RETRY_AFTER_S = 5
_TOO_MANY = (
    "Too many pages are asked for at this moment. Please try again in a few seconds.\n"
    "此刻请求的页面过多，请几秒后再试。\n"
)
# A page may load our own style sheet, scripts and pictures, fetch itself and send its own forms;
# nothing else, and nothing from other hosts.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_THEME_NAMES = {
    "auto": sentence("As the device"),
    "light": sentence("Light"),
    "dark": sentence("Dark"),
}

# PostgreSQL stores no NUL in a text, and no person types one.
_NUL, _NUL_IN_ADDRESS = "\0", b"%00"


class Named(Protocol):
    """A person who can be signed in."""

    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=Named)
Q = TypeVar("Q", bound=Named)
Page = Callable[[Request, Visit[P]], Awaitable[Response]]


class RailLink(NamedTuple):
    """One page of an area's rail; `text` is a sentence of the catalogue."""

    href: str
    text: str
    icon: str


@dataclass(frozen=True)
class Frame:
    """The frame around the pages of one area."""

    home: str = "/"
    title: str = ""
    links: Sequence[RailLink] = ()
    search: str = ""
    search_hint: str = ""
    sign_out: str = ""

    def said(self, say: Say) -> "Frame":
        links = [link._replace(text=say(link.text)) for link in self.links]
        title, hint = say(self.title), say(self.search_hint)
        return replace(self, title=title, links=links, search_hint=hint)


# Of the page that the current task answers: the client address, and how long it takes the loop.
_reader = ContextVar("reader", default="")
_taking: ContextVar[LoopTime[Response]] = ContextVar("taking")


# For pages that belong to no area, whether their reader is signed in or not.
OPEN_FRAME = Frame()


# Where the language and theme switches lead. Each area has its own path, because the session of
# the page's area checks the form.
VIEW_PATH = "/view"
_YEAR_S = 365 * 86_400


class Web(Generic[P]):
    """Renders the pages of one area, and reads their forms."""

    def __init__(
        self,
        sessions: Sessions[P],
        zone: ZoneInfo,
        now_s: Callable[[], float] = time,
        frame: Frame | None = None,
        view_path: str = VIEW_PATH,
    ) -> None:
        self.now_s = now_s
        self.zone = zone
        self._sessions = sessions
        self._frame = frame or Frame()
        self._view_path = view_path
        self._slots = PageSlots(_PAGES_AT_ONCE, "too many pages at once")
        self._files = TurnSlots(_FILES_AT_ONCE, "too many files at once")
        self._templates = page_templates(zone)

    def beside(self, sessions: Sessions[Q], frame: Frame, view_path: str) -> "Web[Q]":
        """The pages of another area, which share the slots and the templates."""
        web = Web(sessions, self.zone, self.now_s, frame, view_path)
        web._slots, web._files, web._templates = self._slots, self._files, self._templates
        return web

    def now(self) -> datetime:
        """The current time in the time zone of the pages."""
        return datetime.fromtimestamp(self.now_s(), self.zone)

    def render(
        self, template: str, visit: Visit[P], status: int = 200, **values: object
    ) -> Response:
        view = visit.view
        theme = THEMES[(THEMES.index(view.theme) + 1) % len(THEMES)]
        page = self._templates.get_template(template).render(
            {
                "_": view.say,
                "status": status,
                "view": view,
                "frame": self._frame.said(view.say) if visit.person else Frame(),
                "current": view.address.partition("?")[0],
                "next_theme": theme,
                "theme_label": view.say("Colours: {theme}", theme=view.say(_THEME_NAMES[theme])),
                "person": visit.person,
                "signed_in": visit.person.name if visit.person else "",
                "form_token": self._sessions.form_token(visit),
                "view_path": self._view_path,
                **values,
            }
        )
        return Response(page, status, media_type="text/html")

    def page(
        self, visit: Visit[P], title: str, blocks: Sequence[Block], **more: Unpack[MoreOfPage]
    ) -> Response:
        """A page made of blocks. The answer to a form never refreshes itself: it may show a secret
        or what was typed, and its address is that of the act."""
        if visit.view.is_answer:
            more["live_s"] = 0
        status, values = more.pop("status", 200), {**NO_MORE, **more}
        return self.render("page.html", visit, status, title=title, shown=blocks, **values)

    def ask_once(
        self,
        visit: Visit[P],
        form: Mapping[str, str],
        question: str,
        button: str,
        *,
        is_harmless: bool = False,
        is_exact: bool = False,
        problem: str = "",
    ) -> Response | None:
        """Asks before an act that cannot be undone; None once the reader has confirmed it. A
        harmless act, which takes nothing away, gets no warning. An exact question is asked again
        if its text has changed by the time the reader confirms it. `problem` is why the act was
        refused after the confirmation."""
        say, sure = visit.view.say, "yes"
        if is_exact:
            sure = hashlib.sha256(question.encode()).hexdigest()
            if form.get("sure"):
                problem = say("Something has changed meanwhile. Check it again.")
        if form.get("sure") == sure:
            return None
        hidden = {name: form[name] for name in form if name not in ("form_token", CAME_FROM)}
        asked = Form(
            visit.view.address,
            button,
            hidden={**hidden, "sure": sure},
            note=question,
            problem=problem,
            tone="act" if is_harmless else "warn",
            back=self._back(visit.view),
        )
        title = say("Please confirm") if is_harmless else say("Are you sure?")
        if visit.view.is_answer:
            # A GET cannot show the question, so the switches lead back to the page before it.
            visit = replace(visit, view=visit.view.at(visit.view.came_from or self._frame.home))
        return self.page(visit, title, [asked])

    def _back(self, view: View) -> Link:
        """A link to the page that a form came from, or else to the area's home page."""
        return Link(view.say("Go back"), view.came_from or self._frame.home)

    def redirect(self, path: str, visit: Visit[P] | None = None) -> Response:
        """Redirects to another of our pages; with a visit, sets its cookie."""
        response = RedirectResponse(path, 303)
        if visit is not None:
            self._sessions.remember(response, visit)
        return response

    def route(self, path: str, shown: Page[P], posted: Page[P]) -> Route:
        """A path with a page for GET, and one for the form that is sent to it."""

        async def answer(request: Request, visit: Visit[P]) -> Response:
            return await (posted if request.method == "POST" else shown)(request, visit)

        return Route(path, self.endpoint(answer), methods=["GET", "POST"])

    def endpoint(self, page: Page[P]) -> Callable[[Request], Awaitable[Response]]:
        """Answers with the page once a slot is free, or with a fixed sentence after a timeout."""

        async def answer(request: Request) -> Response:
            address = self._sessions.counted_address(request)
            _reader.set(address)
            try:
                await self._slots.take(_PAGE_WAIT_S, address)
            except StoreBusyError:
                headers = {**HEADERS, "Retry-After": str(_RETRY_AFTER_S)}
                return PlainTextResponse(_TOO_MANY, 503, headers)
            taking = LoopTime(self._answer(page, request))
            _taking.set(taking)
            try:
                return await taking
            finally:
                self._slots.leave_after(taking.taken_s())

        return answer

    @asynccontextmanager
    async def without_slot(self) -> AsyncIterator[None]:
        """Gives the slot to other pages while this one waits for something else."""
        self._slots.leave_after(_taking.get().taken_s())
        try:
            yield
        finally:
            # Shielded: a cancelled page must take its slot back too, because it will release it.
            await asyncio.shield(self._slots.take(None, _reader.get()))
            _taking.get().taken_s()

    async def admitted(
        self, passwords: PasswordChecker, attempt: Attempt, password: str
    ) -> StoredPassword | None:
        """The person with this login and password, checked outside the page slots."""
        async with self.without_slot():
            return await passwords.admit(self._sessions.area, attempt, password, self.now_s())

    @asynccontextmanager
    async def making_file(self) -> AsyncIterator[None]:
        """Gives the slot to other pages while this one makes a file: one at a time, and addresses
        take turns."""
        async with self.without_slot(), self._files.taken(_FILE_WAIT_S, _reader.get()):
            yield

    async def _answer(self, page: Page[P], request: Request) -> Response:
        """The page with its visit, its errors as a page, and its headers."""
        # Most pages never await anything: without this, all waiting pages would be rendered before
        # the next call gets the event loop.
        await asyncio.sleep(0)
        view = view_of(request)
        visit = replace(self._sessions.unread_visit(request), view=view)
        try:
            if _NUL_IN_ADDRESS in request.scope["query_string"]:
                raise PageError(
                    404, "There is no such page", "Check the address, or go on from the front page."
                )
            visit = await self._sessions.visit(request, self.now_s())
            visit = replace(visit, view=view)
            response = await page(request, visit)
        except Exception as error:
            response = self.error_page(
                visit, page_error_of(error, view), is_form=request.method == "POST"
            )
        response.headers.update(HEADERS)
        if response.status_code == 503:
            response.headers["Retry-After"] = str(_RETRY_AFTER_S)
        if visit.is_new and "set-cookie" not in response.headers:
            self._sessions.remember(response, visit)
        return response

    def error_page(self, visit: Visit[P], error: PageError, *, is_form: bool = False) -> Response:
        view = visit.view.from_page(error.came_from)
        say = view.say
        link = Link(say("Back to the start"), self._frame.home)
        if view.came_from:
            link = self._back(view)
        elif error.status == 503 and not is_form:
            link = Link(say("Try again"), view.address)
        text, tone = say(error.text, **error.values), "bad" if error.status >= 500 else "soon"
        blocks = [Notice(text, tone, link, has_button=True)]
        visit = replace(visit, view=view.at(view.page))
        return self.page(visit, say(error.title), blocks, status=error.status)

    async def form(self, request: Request, visit: Visit[P]) -> dict[str, str]:
        """The fields of a form, which must come from one of our own pages."""
        async with self.without_slot():
            body = await read_body(request, _BODY_MAX if visit.person is None else FORM_BYTES_MAX)
        fields = read_form(request.headers.get("content-type", ""), body)
        await self.check_form(request, visit, fields)
        return fields

    async def came_from(self, request: Request, otherwise: str) -> str:
        """The page of a form whose sender is no longer signed in; ignores all other fields."""
        try:
            async with self.without_slot():
                body = await read_body(request, _BODY_MAX)
            page = read_form(request.headers.get("content-type", ""), body).get(CAME_FROM, "")
        except (PageError, Refusal):
            return otherwise
        return page if is_own_address(page) else otherwise

    async def choose_view(self, request: Request, visit: Visit[P]) -> Response:
        """Stores the reader's language or theme, and redirects back."""
        form = await self.form(request, visit)
        back = form.get("back", "")
        response = self.redirect(back if is_own_address(back) else "/")
        for cookie, chosen, known in (
            (LANGUAGE_COOKIE, form.get("language", ""), LANGUAGES),
            (THEME_COOKIE, form.get("theme", ""), THEMES),
        ):
            if chosen in known:
                self._sessions.set_cookie(response, cookie, chosen, _YEAR_S)
        return response

    async def check_form(
        self, request: Request, visit: Visit[P], fields: Mapping[str, str]
    ) -> None:
        """Refuses a form that did not come from our own pages, or that no database can store."""
        if any(_NUL in text for text in fields.values()):
            raise PageError(400, "This form cannot be read", "Send it from the page.")
        token = fields.get("form_token", "")
        if not await self._sessions.is_own_form(request, visit, token, self.now_s()):
            raise FormTooOldError(fields.get(CAME_FROM, ""))
