"""All paths for people: the pages of owners, their style sheet, and the templates of labels."""

from functools import partial
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tollway.carriers.labels.layout import SIZES, TEMPLATES_PATH, LabelSize
from tollway.consent.links import AUTHORIZE_PATH, ConsentLinks
from tollway.consent.owners import Owner
from tollway.operations.catalogue import OPERATIONS
from tollway.settings import Settings
from tollway.store.database import Database
from tollway.web.authorize import AuthorizePages
from tollway.web.owner import OWNER_PATH, OWNERS, OwnerPages
from tollway.web.pages import HEADERS, Page, Web
from tollway.web.sign_in import Doorkeeper, Sessions, Visit


def web_routes(
    database: Database, settings: Settings, secret: bytes, links: ConsentLinks
) -> list[Route]:
    sessions = Sessions(
        database,
        OWNERS,
        secret,
        is_secure=settings.public_address.startswith("https:"),
        proxies=settings.proxies,
    )
    web = Web(sessions, settings.zone)
    needs = {
        (operation.consent.whose.value, operation.consent.scope): operation.consent
        for operation in OPERATIONS
        if operation.consent is not None
    }
    titles = {operation.name: operation.title for operation in OPERATIONS}
    authorize = AuthorizePages(web, database, links, needs, settings.consent_days)
    owner = OwnerPages(web, database, sessions, Doorkeeper(database), needs, titles)
    style = files("tollway.web").joinpath("pages.css").read_bytes()

    async def show_style(_: Request) -> Response:
        return Response(style, media_type="text/css", headers=HEADERS)

    def page(path: str, shown: Page[Owner], posted: Page[Owner]) -> Route:
        async def answer(request: Request, visit: Visit[Owner]) -> Response:
            return await (posted if request.method == "POST" else shown)(request, visit)

        return Route(path, web.endpoint(answer), methods=["GET", "POST"])

    async def go_home(_: Request, __: Visit[Owner]) -> Response:
        # After a refused form its address stays in the browser, and people load it again.
        return web.redirect(OWNER_PATH)

    return [
        Route("/pages.css", show_style),
        page(AUTHORIZE_PATH, authorize.ask, authorize.answer),
        page(OWNER_PATH, owner.home, go_home),
        page(f"{OWNER_PATH}/reads", owner.reads, go_home),
        page(f"{OWNER_PATH}/sign-in", go_home, owner.sign_in),
        page(f"{OWNER_PATH}/sign-out", go_home, owner.sign_out),
        page(f"{OWNER_PATH}/revoke", go_home, owner.revoke),
    ]


def template_routes() -> list[Route]:
    return [
        Route(f"{TEMPLATES_PATH}/{size.waybill_type}", partial(_show, size))
        for size in SIZES.values()
    ]


async def _show(size: LabelSize, _: Request) -> Response:
    return JSONResponse(size._asdict())
