"""What the links in demo data lead to: drawn pictures of products and shops, and pages that say
which coupon or product a link was for.

Every gateway has demo data in its sandbox, so it always serves these. They depend only on the
demo's constants and on the slot in the link.
"""

import html
from functools import lru_cache, partial
from io import BytesIO

from PIL import Image, ImageDraw
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tollway.operations.demo_data import (
    BUY_PATH,
    COUPON_PATH,
    ITEM_PATH,
    PICTURES_PATH,
    PRODUCTS,
    SHOPS,
    DemoProduct,
)

_SIZE = 400
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'",
}
_PICTURE_HEADERS = {**_HEADERS, "Cache-Control": "public, max-age=86400"}
# Backgrounds and colours of the variants.
_GROUNDS = ("#eef2f5", "#f6f0e6", "#edf3ec")
_COLOURS = ("#5f83a3", "#b9935f", "#4d7358")
_DARK = "#33404d"
# What each product looks like: shapes on a 100 by 100 grid; `None` is the variant's colour.
_Shape = tuple[str, tuple[float, ...], str | None]
_LOOKS: dict[str, tuple[_Shape, ...]] = {
    "加厚纯棉四件套": (
        ("box", (12, 52, 88, 78), None),
        ("box", (18, 36, 46, 54), "#ffffff"),
        ("box", (54, 36, 82, 54), "#ffffff"),
        ("box", (8, 26, 14, 88), _DARK),
        ("box", (86, 44, 92, 88), _DARK),
    ),
    "防水冲锋衣": (
        (
            "shape",
            (30, 24, 70, 24, 90, 62, 78, 68, 70, 50, 70, 86, 30, 86, 30, 50, 22, 68, 10, 62),
            None,
        ),
        ("shape", (40, 24, 60, 24, 50, 38), _DARK),
        ("box", (49, 38, 51, 86), _DARK),
    ),
    "婴儿隔尿垫": (
        ("box", (16, 26, 84, 80), None),
        ("box", (22, 32, 78, 74), "#ffffff"),
        ("dot", (36, 44, 46, 54), None),
        ("dot", (54, 44, 64, 54), None),
        ("dot", (45, 58, 55, 68), None),
    ),
    "便携保温杯 500ml": (
        ("box", (34, 30, 66, 90), None),
        ("box", (38, 12, 62, 28), _DARK),
        ("box", (40, 44, 44, 78), "#ffffff"),
    ),
    "落地护眼台灯": (
        ("shape", (34, 14, 66, 14, 78, 40, 22, 40), None),
        ("box", (48, 40, 52, 86), _DARK),
        ("box", (32, 84, 68, 90), _DARK),
    ),
    "轻便折叠椅": (
        ("shape", (24, 18, 36, 18, 76, 88, 64, 88), _DARK),
        ("shape", (64, 46, 76, 46, 36, 88, 24, 88), _DARK),
        ("box", (30, 46, 82, 54), None),
        ("box", (20, 14, 40, 40), None),
    ),
    "冻干咖啡 24 颗": (
        ("box", (22, 40, 68, 84), None),
        ("dot", (62, 46, 86, 72), None),
        ("dot", (67, 51, 81, 67), "#ffffff"),
        ("box", (22, 40, 68, 48), _DARK),
        ("box", (34, 18, 38, 34), _DARK),
        ("box", (50, 18, 54, 34), _DARK),
    ),
    "珊瑚绒睡衣": (
        (
            "shape",
            (32, 14, 68, 14, 84, 44, 72, 50, 68, 40, 68, 56, 32, 56, 32, 40, 28, 50, 16, 44),
            None,
        ),
        ("shape", (32, 60, 68, 60, 66, 92, 54, 92, 50, 70, 46, 92, 34, 92), None),
        ("dot", (48, 24, 52, 28), "#ffffff"),
        ("dot", (48, 36, 52, 40), "#ffffff"),
    ),
}
_SHOP_LOOK: tuple[_Shape, ...] = (
    ("box", (18, 44, 82, 86), "#ffffff"),
    ("shape", (22, 18, 78, 18, 90, 46, 10, 46), None),
    ("box", (44, 56, 60, 86), _DARK),
    ("box", (26, 54, 38, 68), None),
)


def demo_routes() -> list[Route]:
    """The paths of the pictures and pages; each is exact."""
    pictures = [
        *((each.id, partial(_picture_of, position)) for position, each in enumerate(PRODUCTS)),
        *((each.seller_id, partial(_shop_picture, number)) for number, each in enumerate(SHOPS)),
    ]
    return [
        *(Route(f"{PICTURES_PATH}/{name}.png", partial(_send, draw)) for name, draw in pictures),
        Route(COUPON_PATH, partial(_show_coupon, "领取优惠券", "Claim the coupon")),
        Route(BUY_PATH, partial(_show_coupon, "购买有价券", "Buy the paid coupon")),
        Route(ITEM_PATH, _show_item),
    ]


@lru_cache(maxsize=64)
def drawn(shapes: tuple[_Shape, ...], ground: str, colour: str) -> bytes:
    """A picture as PNG."""
    scale = _SIZE / 100
    image = Image.new("RGB", (_SIZE, _SIZE), ground)
    pen = ImageDraw.Draw(image)
    for kind, points, fill in shapes:
        at = [scale * point for point in points]
        if kind == "box":
            pen.rounded_rectangle(at, 2 * scale, fill or colour)
        elif kind == "dot":
            pen.ellipse(at, fill or colour)
        else:
            pen.polygon(at, fill or colour)
    file = BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def _picture_of(position: int) -> bytes:
    kind = position // len(_LOOKS)
    return drawn(_LOOKS[PRODUCTS[position].name], _GROUNDS[kind], _COLOURS[kind])


def _shop_picture(number: int) -> bytes:
    return drawn(_SHOP_LOOK, _GROUNDS[number], _COLOURS[number])


async def _send(draw: partial[bytes], _: Request) -> Response:
    return Response(draw(), media_type="image/png", headers=_PICTURE_HEADERS)


async def _show_coupon(title: str, english: str, request: Request) -> Response:
    code = request.query_params.get("c", "")[:64]
    return _page(f"{title} {code}", f"{english} {code}", request)


async def _show_item(request: Request) -> Response:
    asked = request.query_params.get("id", "")
    found = next((each for each in PRODUCTS if each.id == asked), None)
    if found is None:
        return _page("没有这个商品", "There is no such product", request, status=404)
    return _page(found.title, f"{found.shop.name} · {found.price_fen / 100:.2f} 元", request, found)


def _page(
    title: str, text: str, request: Request, sold: DemoProduct | None = None, status: int = 200
) -> HTMLResponse:
    slot = request.query_params.get("pid", "")[:100]
    picture = f'<img src="{sold.picture_path}" width="320" height="320" alt="">' if sold else ""
    head, line, pid = (html.escape(each) for each in (title, text, slot))
    content = (
        '<!doctype html><html lang="zh"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{head}</title>"
        '<body style="font-family:sans-serif;max-width:40em;margin:2em auto;padding:0 1em">'
        f"<h1>{head}</h1>{picture}<p>{line}</p>"
        f"<p>这是 Tollway 演示数据的页面。This page belongs to Tollway's demo data.</p>"
        f"<p>推广位 slot: <code>{pid or '—'}</code></p>"
    )
    return HTMLResponse(content, status, headers=_HEADERS)
