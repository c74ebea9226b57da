"""How the pages of an area are declared, and what each page gets to work with.

    PageSpec("/operator/accounts", show_accounts)
    PageSpec("/operator/account/close", act=close_account_act)

`show` answers GET, `act` answers POST; both take a `Context`. The area checks that the person is
signed in and has the right role, reads the form, checks its token, and turns errors into pages.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Unpack
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tollway.carriers import CarrierError
from tollway.carriers.reconciling import Reconciler
from tollway.carriers.vault import Vault
from tollway.carriers.waybills import Waybill
from tollway.consent.links import ConsentLinks, PasswordLinks
from tollway.contract.language import Sentence
from tollway.contract.reasons import Refusal
from tollway.identity.people import Person
from tollway.intake.raw_records import IntakeError
from tollway.ledger import LedgerError
from tollway.ledger.runtime import Runtime
from tollway.ledger.usage import midnight_s
from tollway.settings import Settings
from tollway.store.database import Database
from tollway.web.blocks import Block, Cell, MoreOfPage, Notice
from tollway.web.jobs import Jobs
from tollway.web.latencies import Latencies
from tollway.web.page_calls import PageCalls
from tollway.web.page_errors import FormTooOldError, PageError, RefusedForm, fields_of
from tollway.web.pages import Web
from tollway.web.read_cache import ReadCache
from tollway.web.sign_in import Visit
from tollway.web.sign_in_pages import SignInPages
from tollway.web.uploads import Upload, read_upload
from tollway.web.wording import (
    CAME_FROM,
    Say,
    amount,
    exact_time,
    grouped,
    log_time,
    relative_time,
    sentence,
    short_id,
)
from tollway.webhooks.addresses import Addresses

PAGE_ROWS = 50
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")
_DIGITS_MAX = 64
_NUMBER_MAX = 10**18 - 1


@dataclass(frozen=True)
class GatewayWork:
    """Work that pages can start, but that packages do which this one must not import."""

    # Runs all checks; returns whether all passed, and the report as JSON.
    audit: Callable[[Callable[[int, int], Awaitable[None]]], Awaitable[tuple[bool, str]]]
    # Copies the database to a file; None for PostgreSQL, which has its own tools.
    back_up: Callable[[Path], None] | None
    # Asks a remote carrier to cancel its waybill.
    cancel_at_carrier: Callable[[Waybill], Awaitable[None]]
    # Settles a waybill whose carrier does not say what became of it.
    reconciler: Reconciler


@dataclass(frozen=True)
class Services:
    """What pages read and change."""

    database: Database
    settings: Settings
    runtime: Runtime
    vault: Vault
    password_links: PasswordLinks
    consent_links: ConsentLinks
    calls: PageCalls
    latencies: Latencies
    jobs: Jobs
    work: GatewayWork
    addresses: Addresses
    read_cache: ReadCache = field(default_factory=ReadCache)


class _NotConfirmedError(Exception):
    """The reader has not confirmed an act yet: the answer is the page that asks."""

    def __init__(self, question: Response) -> None:
        super().__init__()
        self.question = question


@dataclass(frozen=True)
class Context:
    """One request for a page, by a person who is signed in."""

    request: Request
    visit: Visit[Person]
    person: Person
    web: Web[Person]
    services: Services
    form: Mapping[str, str]
    upload: Upload | None = None
    refused: RefusedForm | None = None

    @property
    def database(self) -> Database:
        return self.services.database

    @property
    def runtime(self) -> Runtime:
        """The clock and ids, with the person whose acts are recorded in the trail."""
        return replace(self.services.runtime, by=self.person.trail_name)

    @property
    def say(self) -> Say:
        return self.visit.view.say

    @property
    def now_s(self) -> float:
        return self.web.now_s()

    @property
    def day_start_s(self) -> int:
        """When today began, for the daily limits of an account."""
        return midnight_s(self.now_s, self.web.zone)

    @property
    def counted_from_s(self) -> int | None:
        """From when the daily limits count what the reader creates; None for operators, who have no
        limits."""
        return self.day_start_s if self.person.account_id else None

    def query(self, name: str) -> str:
        """A stripped query parameter; empty if it is too long or not printable."""
        text = self.request.query_params.get(name, "").strip()
        return text if text.isprintable() and len(text) <= 200 else ""

    def page(self, title: str, blocks: Sequence[Block], **more: Unpack[MoreOfPage]) -> Response:
        if self.refused is not None:
            # A refresh would discard what was typed.
            blocks, more["live_s"] = self.refused.shown_in(blocks), 0
        return self.web.page(self.visit, title, blocks, **more)

    def reported(self, sentences: Mapping[str, str], *first: Block) -> list[Block]:
        """The blocks that an act shows, or else a notice of the act that the address names."""
        said = sentences.get(self.query("said"))
        return [Notice(self.say(said), "good")] if said and not first else [*first]

    def go(self, path: str, **query: str) -> Response:
        """Redirects to another page; `said` names the sentence that it then reports."""
        return self.web.redirect(address(path, **query))

    def question(self, path: str, **query: str) -> str:
        """The address of a confirmation page that leads back to this page."""
        return address(path, **query, **{CAME_FROM: self.visit.view.page})

    def whole_number(self, name: str, label: str, most: int = _NUMBER_MAX) -> int:
        text = self.form.get(name, "").replace(",", "").strip()
        if not _WHOLE_NUMBER.fullmatch(text):
            wrong = PageError(
                400, "This is not a whole number", "Check the field {field}.", field=label
            )
            raise wrong.at(name)
        # Parsing a very long number is slow, so check its length first.
        if len(text) > _DIGITS_MAX or abs(int(text)) > most:
            wrong = PageError(
                400,
                "This number is too large",
                "{field} can be {most} at most.",
                field=label,
                most=grouped(most),
            )
            raise wrong.at(name)
        return int(text)

    def optional_number(self, name: str, label: str, most: int = _NUMBER_MAX) -> int | None:
        return self.whole_number(name, label, most) if self.form.get(name, "").strip() else None

    def confirm(
        self, question: str, button: str, *, is_harmless: bool = False, is_exact: bool = False
    ) -> None:
        """Asks before an act: the code after this call only runs once the reader has confirmed."""
        asked = self.web.ask_once(
            self.visit,
            self.form,
            question,
            button,
            is_harmless=is_harmless,
            is_exact=is_exact,
            problem="" if self.refused is None else self.refused.problem,
        )
        if asked is not None:
            raise _NotConfirmedError(asked)

    # Cells, as all tables show them.

    def time(self, at_s: float | None) -> Cell:
        if not at_s:
            return Cell("")
        zone = self.web.zone
        relative = relative_time(at_s, self.now_s, zone, self.say)
        return Cell(relative, "time", title=exact_time(at_s, zone))

    def log_time(self, at_s: float) -> Cell:
        """When a row of a log was made."""
        shown = log_time(at_s, self.now_s, self.web.zone, self.say)
        return Cell(shown, "time", title=exact_time(at_s, self.web.zone))

    @property
    def area(self) -> str:
        """The prefix of the addresses of the reader's pages."""
        return "/account" if self.person.account_id else "/operator"

    def receipt(self, request_id: str) -> Cell:
        """A link to the receipt of a call."""
        path = address(f"{self.area}/request", id=request_id)
        return Cell(short_id(request_id), "code", path, request_id)

    def owner(self, kind: str, owner_id: str) -> str:
        """A shop or user, as `shop 880012001`."""
        return f"{self.say(kind)} {owner_id}"

    def said(self, sentence: Sentence) -> str:
        """Why an act was refused, in the reader's language."""
        return sentence.said(self.visit.view.language)

    def number(self, value: float | None) -> Cell:
        return Cell("" if value is None else grouped(value), "number")

    def amount(self, unit: str, value: int) -> Cell:
        return Cell(amount(self.say, unit, value), "number")


Handler = Callable[[Context], Awaitable[Response]]


@dataclass(frozen=True)
class PageSpec:
    """One path of an area. A reader who may change nothing gets `show` alone."""

    path: str
    show: Handler | None = None
    act: Handler | None = None
    needs_owner: bool = False
    takes_file: bool = False


def address(path: str, **query: object) -> str:
    """A path with its query, without empty values."""
    chosen = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(chosen)}" if chosen else path


_IDLED = sentence(
    "You were signed out meanwhile, and nothing was done. Sign in, and send the form again."
)


def area_routes(
    web: Web[Person], sign_in: SignInPages, services: Services, specs: Sequence[PageSpec]
) -> list[Route]:
    """The routes of an area, and of its sign-in."""
    area, home = _Area(web, sign_in, services, {each.path: each for each in specs}), sign_in.home

    def route(spec: PageSpec) -> Route:
        answer = partial(area.answer, spec)
        return web.route(spec.path, answer, answer)

    async def show_form(_: Request, visit: Visit[Person]) -> Response:
        return web.redirect(home) if visit.person else sign_in.form(visit, "")

    async def missing(_: Request, __: Visit[Person]) -> Response:
        raise PageError(404, "There is no such page", "The pages that there are have links here.")

    return [
        *(route(spec) for spec in specs),
        web.route(f"{home}/sign-in", show_form, sign_in.sign_in),
        web.route(f"{home}/sign-out", show_form, sign_in.sign_out),
        web.route(f"{home}/enter", sign_in.show_link, sign_in.enter),
        web.route(f"{home}/{{rest:path}}", missing, missing),
    ]


@dataclass(frozen=True)
class _Area:
    """Answers the pages of an area for people who are signed in and have the right role."""

    web: Web[Person]
    sign_in: SignInPages
    services: Services
    by_path: Mapping[str, PageSpec]

    async def answer(self, spec: PageSpec, request: Request, visit: Visit[Person]) -> Response:
        web, sign_in, is_act = self.web, self.sign_in, request.method == "POST"
        if visit.person is None:
            if not is_act:
                return sign_in.form(visit, visit.view.address)
            return sign_in.form(visit, await web.came_from(request, spec.path), 403, _IDLED)
        handler = spec.act if is_act else spec.show
        if handler is None:
            # A refused form leaves its address in the browser, and people reload it.
            return web.redirect(sign_in.home)
        _check_right(visit.person, spec, is_act=is_act)
        upload = None
        if is_act and spec.takes_file:
            upload = await _uploaded(web, request, visit)
            form = upload.fields
        else:
            form = await web.form(request, visit) if is_act else _asked(request)
        person = visit.person
        visit = replace(visit, view=visit.view.from_page(form.get(CAME_FROM, "")))
        context = Context(request, visit, person, web, self.services, form, upload)
        try:
            return await _answered(handler, context)
        except PageError as error:
            again = await _shown_again(context, self.by_path, error) if is_act else None
            return again or web.error_page(visit, error)


async def _answered(handler: Handler, context: Context) -> Response:
    try:
        return await handler(context)
    except _NotConfirmedError as error:
        return error.question
    except (LedgerError, CarrierError, IntakeError) as error:
        refused = PageError(409, "That is not possible", context.said(error.sentence))
        raise refused.at(*fields_of(error.sentence)) from None
    except Refusal as error:
        text = error.message(context.visit.view.language)
        raise PageError(409, "That is not possible", text) from None


async def _shown_again(
    context: Context, specs: Mapping[str, PageSpec], error: PageError
) -> Response | None:
    """The page of a refused form, with what was typed. None if that page cannot be shown, or not to
    this reader: the form names it, so it may name any page."""
    say, page = context.say, context.visit.view.page
    path, _, query = page.partition("?")
    spec = specs.get(path)
    may_see = not isinstance(error, FormTooOldError)
    if spec is None or spec.show is None or error.status >= 500 or not may_see:
        return None
    scope = {**context.request.scope, "method": "GET", "path": path}
    request = Request({**scope, "query_string": query.encode("latin-1", "replace")})
    text = say(error.text, **error.values)
    problem = say("{title}: {text}", title=say(error.title), text=text)
    its = replace(
        context,
        request=request,
        visit=replace(context.visit, view=context.visit.view.at(page)),
        form=_asked(request),
        upload=None,
        refused=RefusedForm(context.request.url.path, context.form, problem, error.fields),
    )
    try:
        _check_right(its.person, spec, is_act=False)
        response = await _answered(spec.show, its)
    except PageError:
        return None
    response.status_code = error.status
    return response


def _asked(request: Request) -> dict[str, str]:
    """The values of a link to an act, without `sure`: a link can ask, but never confirm."""
    return {name: value for name, value in request.query_params.items() if name != "sure"}


async def _uploaded(web: Web[Person], request: Request, visit: Visit[Person]) -> Upload:
    async with web.without_slot():
        upload = await read_upload(request)
    try:
        await web.check_form(request, visit, upload.fields)
    except BaseException:
        upload.drop()
        raise
    return upload


def _check_right(person: Person, spec: PageSpec, *, is_act: bool) -> None:
    if (is_act and not person.may_change) or (spec.needs_owner and not person.may_invite):
        raise PageError(
            403, "Your role does not allow this", "Ask an owner of the account to do it."
        )
