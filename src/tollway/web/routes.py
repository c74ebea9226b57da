"""All routes for people: the front page, the pages of each area, and the label templates."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import chain
from typing import NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tollway.carriers.labels.layout import SIZES, TEMPLATES_PATH, LabelSize
from tollway.carriers.vault import Vault
from tollway.consent.links import AUTHORIZE_PATH, PASSWORD_PATH, ConsentLinks, PasswordLinks
from tollway.consent.owners import Owner
from tollway.identity.people import Person
from tollway.ledger.runtime import Runtime
from tollway.ledger.usage import DAY_S
from tollway.operations.demo_data import SandboxItem
from tollway.settings import Settings
from tollway.store.database import Database
from tollway.web.area import GatewayWork, PageSpec, Services, area_routes
from tollway.web.authorize import AuthorizePages
from tollway.web.blocks import Link
from tollway.web.caller import pages as caller_pages
from tollway.web.erasure_page import PATH as ERASE_PATH
from tollway.web.erasure_page import ErasePages
from tollway.web.front_page import MISSING_PATH, FrontPage
from tollway.web.jobs import Jobs
from tollway.web.latencies import Latencies
from tollway.web.operator import pages as operator_pages
from tollway.web.operator.operators import FACTORS
from tollway.web.owner import OWNER_FRAME, OWNER_PATH, OWNERS, OwnerPages, PasswordPages
from tollway.web.page_calls import Make, PageCalls
from tollway.web.pages import HEADERS, VIEW_PATH, Frame, Named, Web
from tollway.web.reference import ReferencePages
from tollway.web.second_factor import SecondFactorPages, Someone
from tollway.web.sign_in import Area, PasswordChecker, Sessions, Visit
from tollway.web.sign_in_pages import ACCOUNT_PATH, MEMBERS, OPERATOR_PATH, OPERATORS, SignInPages
from tollway.web.wording import sentence
from tollway.webhooks.addresses import Addresses

P = TypeVar("P", bound=Named)
F = TypeVar("F", bound=Someone)

ASSETS = {
    "pages.css": "text/css",
    "pages.js": "text/javascript",
    "pages.svg": "image/svg+xml",
    "reference.js": "text/javascript",
}


@dataclass(frozen=True)
class PageDependencies:
    """What the pages take from the gateway."""

    database: Database
    settings: Settings
    secret: bytes
    vault: Vault
    links: ConsentLinks
    is_ready: Callable[[], Awaitable[bool]]
    demo: Mapping[str, str] | None
    # What there is to find in the sandbox.
    sandbox: Sequence[SandboxItem]
    # Makes a call through this gateway's own pipeline.
    calls: Make
    # The metrics of all workers.
    metrics: Callable[[], Awaitable[bytes]]
    work: GatewayWork


def web_routes(parts: PageDependencies) -> list[Route]:
    database, settings = parts.database, parts.settings
    sessions = _sessions(parts, OWNERS)
    passwords = PasswordChecker(database)
    web = Web(sessions, settings.zone, frame=OWNER_FRAME)
    page = web.route
    authorize = AuthorizePages(web, database, parts.links, settings.consent_days * DAY_S)
    factor = _second_factor(parts, web, sessions, OWNER_PATH)
    erasing = ErasePages(web, database, sessions, passwords)
    owner = OwnerPages(web, database, sessions, passwords, factor)
    services = _services(parts, web.now_s)
    password = PasswordPages(web, database, services.password_links, factor, passwords, sessions)
    front = FrontPage(web, database, parts.is_ready, parts.demo)
    reference = ReferencePages(web, settings.public_address, parts.sandbox)

    async def go_home(_: Request, __: Visit[Owner]) -> Response:
        # A refused form leaves its address in the browser, and people reload it.
        return web.redirect(OWNER_PATH)

    return [
        *(asset_route(name, kind) for name, kind in ASSETS.items()),
        page("/", front.show, front.show),
        *(page(path, shown, shown) for path, shown in reference.pages().items()),
        page(VIEW_PATH, front.show, web.choose_view),
        page(MISSING_PATH, front.missing, front.missing),
        page(AUTHORIZE_PATH, authorize.ask, authorize.answer),
        page(OWNER_PATH, owner.home, go_home),
        page(f"{OWNER_PATH}/reads", owner.reads, go_home),
        page(f"{OWNER_PATH}/sign-in", owner.show_sign_in, owner.sign_in),
        page(f"{OWNER_PATH}/sign-out", go_home, owner.sign_out),
        page(f"{OWNER_PATH}/revoke", go_home, owner.revoke),
        page(ERASE_PATH, erasing.show, erasing.act),
        page(PASSWORD_PATH, password.ask, password.answer),
        *factor.routes(),
        page(f"{OWNER_PATH}/{{rest:path}}", owner.missing, owner.missing),
        *chain.from_iterable(
            _people_routes(parts, web, passwords, services, each) for each in _PEOPLE
        ),
    ]


def _services(parts: PageDependencies, now_s: Callable[[], float]) -> Services:
    return Services(
        parts.database,
        parts.settings,
        Runtime(now_s=now_s),
        parts.vault,
        PasswordLinks(parts.secret, parts.settings.public_address),
        parts.links,
        PageCalls(parts.database, parts.calls),
        Latencies(parts.metrics, now_s()),
        Jobs(parts.database, now_s),
        parts.work,
        Addresses(parts.settings.internal_hosts),
    )


def _sessions(parts: PageDependencies, area: Area[P]) -> Sessions[P]:
    return Sessions(
        parts.database,
        area,
        parts.secret,
        is_secure=parts.settings.public_address.startswith("https:"),
        proxies=parts.settings.proxies,
    )


def _second_factor(
    parts: PageDependencies, web: Web[F], sessions: Sessions[F], home: str, more: Link | None = None
) -> SecondFactorPages[F]:
    sealer = parts.vault.sealer
    return SecondFactorPages(web, parts.database, sessions, sealer, parts.secret, home, more)


class _People(NamedTuple):
    """One kind of people with an area of their own: its pages, and the texts of its sign-in."""

    area: Area[Person]
    home: str
    frame: Frame
    pages: Sequence[PageSpec]
    lead: str
    forgotten: str
    # A link on the page of the second factor.
    more: Link | None = None


_PEOPLE = (
    _People(
        OPERATORS,
        OPERATOR_PATH,
        operator_pages.FRAME,
        operator_pages.PAGES,
        sentence("For those who run this gateway."),
        sentence(
            "No password, or forgotten? `tollway operator link LOGIN` prints a link that signs in; "
            "another operator can make one too."
        ),
        Link(sentence("All second factors"), FACTORS),
    ),
    _People(
        MEMBERS,
        ACCOUNT_PATH,
        caller_pages.FRAME,
        caller_pages.PAGES,
        sentence("For the members of an account that calls this gateway."),
        sentence(
            "No login yet, or forgotten? An owner of your account, or the operator, can send you a "
            "link."
        ),
    ),
)


def _people_routes(
    parts: PageDependencies,
    front: Web[Owner],
    passwords: PasswordChecker,
    services: Services,
    of: _People,
) -> list[Route]:
    sessions, view_path = _sessions(parts, of.area), f"{of.home}{VIEW_PATH}"
    web = front.beside(sessions, of.frame, view_path)
    factor = _second_factor(parts, web, sessions, of.home, of.more)
    sign_in = SignInPages(
        web, parts.database, sessions, passwords, factor, of.home, of.lead, of.forgotten
    )
    return [
        Route(view_path, web.endpoint(web.choose_view), methods=["POST"]),
        *factor.routes(),
        *area_routes(web, sign_in, services, of.pages),
    ]


def asset_route(name: str, kind: str) -> Route:
    content = files("tollway.web").joinpath(name).read_bytes()
    headers = {**HEADERS, "Cache-Control": "max-age=300"}

    async def show(_: Request) -> Response:
        return Response(content, media_type=kind, headers=headers)

    return Route(f"/{name}", show)


def template_routes() -> list[Route]:
    return [
        Route(f"{TEMPLATES_PATH}/{size.waybill_type}", partial(_show, size))
        for size in SIZES.values()
    ]


async def _show(size: LabelSize, _: Request) -> Response:
    return JSONResponse(size._asdict())
