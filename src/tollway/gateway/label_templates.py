"""The addresses that print data names as a label's template: what paper it is made for."""

from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tollway.carriers.labels.layout import SIZES, TEMPLATES_PATH, LabelSize


def template_routes() -> list[Route]:
    return [
        Route(f"{TEMPLATES_PATH}/{size.waybill_type}", partial(_show, size))
        for size in SIZES.values()
    ]


async def _show(size: LabelSize, _: Request) -> Response:
    return JSONResponse(size._asdict())
