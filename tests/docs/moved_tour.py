"""The tour on a demo world, and on the same world after `tollway move`."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.docs.pages import TOUR, Example, examples_of
from tests.docs.workplace import Workplace
from tests.support.postgresql import new_database
from tollway.__main__ import main
from tollway.demo.world import make_world
from tollway.demo.world_file import DemoWorld
from tollway.ledger.runtime import Runtime
from tollway.settings import Settings
from tollway.store.migrate import migrate
from tollway.store.open import open_database, open_sealer
from tollway.telemetry.metrics import Metrics

# What is another one in every run: times, what is made from them, and what is random.
_MOVING = (
    (r'"(msec|time|expires_at)":\d+', r'"\1":0'),
    (r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME"),
    (r"link=[\w.-]+", "link=LINK"),
    (r"\btok_\w+", "TOKEN"),
    (r"\b[0-9a-f]{26}\b", "REQUEST"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    # The demo world is filled up to the minute whenever it is started.
    (r'"(totalElements|total_elements)":\d+', r'"\1":0'),
    (r"(?m)^(\w+) +[\d,]+( +\d+ )", r"\1 ROWS\2"),
    # Of a file alone: another program can write to it.
    (r"(?m)^schema .*\n", ""),
    # Of the server of the tests alone, which does not wait for the disk.
    (r"(?m)^PostgreSQL runs with \w+ = off\. .*\n?", ""),
)


# Where the tour shows the beginning of an answer: the end may be in the middle of a number.
_CUT = " | cut -c 1-80"
_WHOLE = "whole.txt"


class Tours(NamedTuple):
    """What the examples of the tour printed on the file; and all that was answered there, and on
    the database that it was moved to, but for what moves."""

    printed: list[str]
    before: list[str]
    after: list[str]


def make_demo(folder: Path) -> DemoWorld:
    """A demo world, in a file that no gateway serves yet."""
    (folder / "data").mkdir()
    path = folder / "data" / "demo.db"
    zone = Settings().zone

    async def work() -> DemoWorld:
        database = open_database(f"sqlite:///{path}", Metrics())
        try:
            await migrate(database)
            return await make_world(
                database,
                open_sealer(f"sqlite:///{path}", ""),
                Runtime(),
                database_path=str(path),
                base_url="",
                site="",
                zone=zone,
            )
        finally:
            await database.close()

    return asyncio.run(work())


def tours_of(world: DemoWorld, folder: Path) -> Tours:
    """Moves the world of a folder, and takes the tour on both."""
    moved_to = folder / "moved"
    moved_to.mkdir()
    settings = {
        "TOLLWAY_DATABASE": new_database(),
        "TOLLWAY_KEY_FILE": str(moved_to / "tollway.keys"),
        "TOLLWAY_SECRET_FILE": str(moved_to / "tollway.secret"),
    }
    source = f"sqlite:///{folder}/data/demo.db"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        for name, value in settings.items():
            patch.setenv(name, value)
        main(["move", "--from", source, "--to", settings["TOLLWAY_DATABASE"]])
    assert ended.value.code == 0
    printed, before = _answers(folder, Workplace(folder), world)
    _, after = _answers(moved_to, Workplace(moved_to, settings), world)
    return Tours(printed, before, after)


def _answers(folder: Path, place: Workplace, world: DemoWorld) -> tuple[list[str], list[str]]:
    """What the tour printed; and this with what it only showed the beginning of."""
    place.start_demo()
    try:
        printed = place.run([_kept_whole(example) for example in examples_of(TOUR)])
        more = list(_whole_answers(place.address, world))
    finally:
        place.stop()
    is_cut = [_CUT in example.commands.text for example in examples_of(TOUR)]
    whole = (folder / _WHOLE).read_text(encoding="utf-8")
    uncut = [text for text, cut in zip(printed, is_cut, strict=True) if not cut]
    return printed, [_without_moving(text) for text in (*uncut, whole, *more)]


def _kept_whole(example: Example) -> Example:
    """The same example; what it cuts off is in a file."""
    text = example.commands.text.replace(_CUT, f" | tee -a {_WHOLE}{_CUT}")
    return example._replace(commands=example.commands._replace(text=text))


def _whole_answers(address: str, world: DemoWorld) -> Iterator[str]:
    head = {"Authorization": f"Bearer {world.token}"}
    with httpx.Client(base_url=f"{address}/papi/tool", headers=head, timeout=30) as client:
        question = {"product_id": world.product_id, "query_date": world.query_date}
        yield client.get("/accounts/goods-analysis", params=question).text
        claims: Mapping[str, str] = {
            "sid": world.sid,
            "type": "4",
            "startTime": world.coupon_start_time,
            "endTime": world.coupon_end_time,
        }
        for page in ("1", "2", "3"):
            fields = {**claims, "page": page, "limit": "20"}
            yield client.post("/waimai/partner_couponList", data=fields).text
        # Until the day that is whole.
        until = f"{world.query_date} 00:00:00"
        for page in ("0", "7", "21"):
            fields = {"owner_id": world.owner_id, "page": page, "pageSize": "50"}
            fields |= {"vvtype": "1", "end_time": until}
            orders = client.post("/erps/paging-orders", data=fields).text
            # Or nothing would have been compared.
            assert '"order_sn":' in orders
            yield orders
        material = {
            "promotion_id": 37104,
            "platform_user_id": world.platform_user_id,
            "site_id": world.site_id,
            "adzone_id": world.adzone_id,
        }
        yield client.post("/affiliate/promotion", json=material).text


def _without_moving(text: str) -> str:
    for pattern, instead in _MOVING:
        text = re.sub(pattern, instead, text)
    return text
