"""All paths of the console."""

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tollway.consent.links import AUTHORIZE_PATH, Links
from tollway.console.authorize import AuthorizePages
from tollway.console.owner import OWNER_PATH, OwnerPages
from tollway.console.session import Sessions
from tollway.console.web import HEADERS, Web
from tollway.operations.catalogue import OPERATIONS
from tollway.settings import Settings
from tollway.store.database import Database


def console_routes(
    database: Database, settings: Settings, secret: bytes, links: Links
) -> list[Route]:
    sessions = Sessions(secret, is_secure=settings.public_address.startswith("https:"))
    web = Web(database, sessions, settings.zone)
    needs = {
        (operation.consent.whose.value, operation.consent.scope): operation.consent
        for operation in OPERATIONS
        if operation.consent is not None
    }
    titles = {operation.name: operation.title for operation in OPERATIONS}
    authorize = AuthorizePages(web, database, links, needs, settings.consent_days)
    owner = OwnerPages(web, database, sessions, needs, titles)
    style = files("tollway.console").joinpath("console.css").read_bytes()

    async def show_style(_: Request) -> Response:
        return Response(style, media_type="text/css", headers=HEADERS)

    async def authorize_page(request: Request) -> Response:
        page = authorize.answer if request.method == "POST" else authorize.ask
        return await web.endpoint(page)(request)

    return [
        Route("/console.css", show_style),
        Route(AUTHORIZE_PATH, authorize_page, methods=["GET", "POST"]),
        Route(OWNER_PATH, web.endpoint(owner.home)),
        Route(f"{OWNER_PATH}/reads", web.endpoint(owner.reads)),
        Route(f"{OWNER_PATH}/sign-in", web.endpoint(owner.sign_in), methods=["POST"]),
        Route(f"{OWNER_PATH}/sign-out", web.endpoint(owner.sign_out), methods=["POST"]),
        Route(f"{OWNER_PATH}/revoke", web.endpoint(owner.revoke), methods=["POST"]),
    ]
