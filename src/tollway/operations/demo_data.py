"""What the demo data of all subjects has in common: its shops and products, its target, and its
amount."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from tollway.contract.language import Phrase
from tollway.intake.loading import Loader, store_records
from tollway.intake.second_process import SecondProcess
from tollway.ledger.usage import DAY_S, day_start_s
from tollway.store.database import Database, StoreError
from tollway.store.sealing import Sealer

DEMO_SEED = 20260101
# The day of the examples in the OpenAPI document, which must not change from day to day. The
# sandbox has figures for it, however long ago it was.
EXAMPLE_DAY = date(2026, 1, 31)
# Where the pictures and links of the demo world lead: to pages of the gateway itself.
PICTURES_PATH = "/demo/pictures"
COUPON_PATH, BUY_PATH, ITEM_PATH = "/demo/coupon", "/demo/buy", "/demo/item"
# More than an import commits at once: no call waits for a database that is just being made.
_CHUNK_RECORDS = 10_000


class DemoShop(NamedTuple):
    """A shop: its owner's id in orders, its seller's id in promotion material, and its names."""

    owner_id: str
    seller_id: str
    name: str
    nick: str


# The first has authorized the demo account.
SHOPS = (
    DemoShop("880012001", "2206501001", "青禾生活旗舰店", "青禾生活"),
    DemoShop("880012002", "2206501002", "北山户外专营店", "北山户外"),
    DemoShop("880012003", "2206501003", "小满母婴官方店", "小满母婴"),
)


class DemoProduct(NamedTuple):
    """A product that is sold, promoted and analysed."""

    id: str
    name: str
    variant: str
    price_fen: int
    words: tuple[str, ...]
    shop: DemoShop

    @property
    def title(self) -> str:
        return f"{self.name} {self.variant}"

    @property
    def picture_path(self) -> str:
        return f"{PICTURES_PATH}/{self.id}.png"


# The first three belong to different shops, so that the small sandbox has one of each. The words
# are search terms of buyers.
_GOODS: tuple[tuple[str, tuple[str, str, str], int, tuple[str, ...], DemoShop], ...] = (
    (
        "加厚纯棉四件套",
        ("雾蓝", "燕麦", "墨绿"),
        25990,
        ("四件套", "纯棉床品", "床单被套", "加厚四件套", "双人床品"),
        SHOPS[0],
    ),
    (
        "防水冲锋衣",
        ("墨绿 L", "藏蓝 XL", "橙色 M"),
        39900,
        ("冲锋衣", "防水外套", "户外夹克", "登山服", "三合一冲锋衣"),
        SHOPS[1],
    ),
    (
        "婴儿隔尿垫",
        ("20 片装", "50 片装", "100 片装"),
        3980,
        ("隔尿垫", "婴儿床垫", "防水垫", "宝宝用品", "一次性隔尿垫"),
        SHOPS[2],
    ),
    (
        "便携保温杯 500ml",
        ("燕麦色", "雾蓝色", "石墨色"),
        7950,
        ("保温杯", "便携水杯", "500ml 水杯", "不锈钢杯", "车载保温杯"),
        SHOPS[1],
    ),
    (
        "落地护眼台灯",
        ("暖白光", "自然光", "三档调光"),
        19999,
        ("护眼灯", "落地灯", "学习台灯", "客厅灯", "阅读灯"),
        SHOPS[0],
    ),
    (
        "轻便折叠椅",
        ("单把", "两把装", "四把装"),
        8900,
        ("折叠椅", "露营椅", "户外椅", "钓鱼椅", "便携椅子"),
        SHOPS[1],
    ),
    (
        "冻干咖啡 24 颗",
        ("美式", "拿铁", "浓缩"),
        6990,
        ("冻干咖啡", "速溶咖啡", "黑咖啡", "咖啡粉", "美式咖啡"),
        SHOPS[0],
    ),
    (
        "珊瑚绒睡衣",
        ("燕麦 XL", "雾粉 L", "烟灰 M"),
        12950,
        ("睡衣", "珊瑚绒", "家居服", "加厚睡衣", "情侣睡衣"),
        SHOPS[0],
    ),
)
PRODUCTS = tuple(
    DemoProduct(
        str(620_145_000_100 + 37 * (kind * len(_GOODS) + position)),
        name,
        variants[kind],
        price_fen,
        words,
        shop,
    )
    for kind in range(3)
    for position, (name, variants, price_fen, words, shop) in enumerate(_GOODS)
)

# How many of the products the sandbox has.
SANDBOX_PRODUCTS = 3


class SandboxItem(NamedTuple):
    """One thing of the sandbox that a request can name."""

    kind: Phrase
    parameter: str
    value: str
    note: Phrase


Progress = Callable[[int], None]
_Row = TypeVar("_Row")


def no_progress(_: int) -> None:
    """For callers that show no progress."""


class DemoTarget(msgspec.Struct, frozen=True):
    """The database that demo data is stored in. The sandbox gets a small part of the demo world."""

    database: Database
    sealer: Sealer
    # Today has data up to this moment; all earlier days are whole.
    now_s: float
    zone: ZoneInfo
    # The address of the gateway that serves pictures and links.
    site: str
    is_sandbox: bool = False
    # When a world is continued: how many days ago it was made, and at which address.
    made_days_ago: int | None = None
    made_site: str | None = None
    progress: Progress = no_progress

    @property
    def today(self) -> date:
        return datetime.fromtimestamp(self.now_s, self.zone).date()

    @property
    def products(self) -> int:
        return SANDBOX_PRODUCTS if self.is_sandbox else len(PRODUCTS)

    def first_day(self, days: int, changing_days: int = 0) -> date:
        """The day to begin with: so many days before today, or fewer if a world is continued, which
        needs only the days since. Records go on changing for `changing_days`."""
        if self.made_days_ago is not None:
            days = min(days, self.made_days_ago + changing_days)
        return self.today - timedelta(days=days)


class DemoPart(msgspec.Struct, frozen=True):
    """One subject's part of the demo world, and how many records it will report as progress. A part
    may start making its records when `fill` is called; the coroutine it returns stores them."""

    fill: Callable[[DemoTarget], Coroutine[Any, Any, None]]
    world_records: Callable[[], int] = lambda: 0


async def store_all(
    database: Database, loader: Loader, records: Iterable[object], progress: Progress
) -> None:
    """Stores records chunk by chunk, like any load; records that exist stay the same.

    A server stores a chunk while the next one is made. For a file, a thread of this process does
    the writing, and only one thread runs at a time: overlapping would cost more than it saves.
    """
    stream = iter(records)
    storing: asyncio.Future[int] | None = None
    while chunk := list(islice(stream, _CHUNK_RECORDS)):
        if storing is not None:
            await storing
        storing = asyncio.ensure_future(store_records(database, loader, chunk))
        if database.is_shared:
            # Lets the task start: making a chunk never yields to the event loop.
            await asyncio.sleep(0)
        else:
            await storing
        progress(len(chunk))
    if storing is not None:
        await storing


def made_in_second_process(
    row_type: type[_Row], make: Callable[[], Iterable[_Row]]
) -> Iterator[_Row]:
    """Rows that a second process makes, starting now."""
    decoder = msgspec.msgpack.Decoder(list[row_type])  # type: ignore[valid-type]
    return _received(SecondProcess(_packed_chunks, make), decoder)


def _received(
    process: SecondProcess, decoder: msgspec.msgpack.Decoder[list[_Row]]
) -> Iterator[_Row]:
    try:
        for piece in process.pieces():
            yield from decoder.decode(piece)
    except EOFError:
        raise StoreError("Making the demo data ended half-way: run the command again.") from None


def _packed_chunks(make: Callable[[], Iterable[object]]) -> Iterator[bytes]:
    rows = iter(make())
    while chunk := list(islice(rows, _CHUNK_RECORDS)):
        yield msgspec.msgpack.encode(chunk)


def part_of_day(day: date, zone: ZoneInfo, now_s: float) -> float:
    """How much of a day is over, from 0 to 1."""
    return min(1.0, max(0.0, (now_s - day_start_s(day, zone)) / DAY_S))
