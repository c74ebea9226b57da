"""Starts the FastAPI peer on a database with the same records as the gateway's."""

import hashlib
import json
import sys
from collections.abc import Iterator
from datetime import datetime
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from bench.peers.answers import SLOT, Data
from bench.peers.nginx import waybill_form
from bench.scenarios import CLAIM_TYPE
from bench.servers import free_port, start, stop
from bench.world import ZONE, World
from tollway.demo.owners import SHOP, USER
from tollway.operations.waybills.demo import WP_CODE

TITLE = "FastAPI + SQLAlchemy"
_MODULES = ("fastapi", "uvicorn", "psycopg")
_MANY = 10**9
_ROWS_AT_ONCE = 5000


def missing_tools() -> list[str]:
    names = [name for name in _MODULES if find_spec(name) is None]
    return [f"{', '.join(names)} (make bench installs requirements/bench.lock)"] if names else []


class FastApiPeer:
    """uvicorn with one worker, on the core of all servers."""

    def __init__(self, folder: Path, url: str, world: World, data: Data) -> None:
        if url.startswith("postgresql://"):
            url = url.replace("postgresql://", "postgresql+psycopg://")
        _load(url, world, data)
        self.port = free_port()
        command = [sys.executable, "-m", "uvicorn", "bench.peers.fastapi_app:app"]
        options = ["--port", str(self.port), "--no-access-log", "--log-level", "warning"]
        environment = {"BENCH_DATABASE": url, "BENCH_WAYBILL": waybill_form(data).decode()}
        log = folder / f"fastapi-{self.port}.log"
        self._process = start([*command, *options], self.port, Path.cwd(), log, environment)

    @property
    def pids(self) -> list[int]:
        return [self._process.pid]

    def stop(self) -> None:
        stop(self._process)


def _load(url: str, world: World, data: Data) -> None:
    # Here, since the peer's packages may not be installed.
    from sqlalchemy import create_engine, insert  # noqa: PLC0415

    from bench.peers import fastapi_models as models  # noqa: PLC0415

    engine = create_engine(url)
    models.Base.metadata.create_all(engine)
    rows = {
        models.Account: _accounts(),
        models.Token: _tokens(world),
        models.Consent: (
            {"account_id": account, "owner_id": owner}
            for account in ("paying", "limited", "spent")
            for owner in (SHOP.id, USER.id)
        ),
        models.Product: _products(data),
        models.ProductDay: _product_days(data),
        models.Order: ({"owner_id": SHOP.id, **json.loads(each)} for each in data.orders),
        models.Claim: _claims(data),
        models.Material: _materials(data),
        models.Number: (
            {"number": f"YT{9_000_000_000_000 + number}", "wp_code": WP_CODE}
            for number in range(world.size.numbers)
        ),
    }
    with engine.begin() as connection:
        for model, stream in rows.items():
            while chunk := list(islice(stream, _ROWS_AT_ONCE)):
                connection.execute(insert(model), chunk)
    engine.dispose()


def _accounts() -> Iterator[dict[str, Any]]:
    for name in ("paying", "limited", "spent"):
        amount = 0 if name == "spent" else _MANY
        rate = 10 if name == "limited" else _MANY
        yield {"id": name, "calls_a_second": rate, "calls": amount, "credits": amount}


def _tokens(world: World) -> Iterator[dict[str, Any]]:
    for name in ("paying", "limited", "spent"):
        hashed = hashlib.sha256(getattr(world.tokens, name).encode()).hexdigest()
        yield {"hash": hashed, "account_id": name}


def _products(data: Data) -> Iterator[dict[str, Any]]:
    for (product_id, day), answer in data.analyses.items():
        # The daily figures keep their position among the other parts.
        parts = {**json.loads(answer), "dateData": None}
        yield {"product_id": product_id, "day": day, "parts": parts}


def _product_days(data: Data) -> Iterator[dict[str, Any]]:
    seen = set()
    for (product_id, _), answer in data.analyses.items():
        series = json.loads(answer)["dateData"]["data"]
        for figures in zip(*series.values(), strict=True):
            row = dict(zip(series, figures, strict=True))
            key = (product_id, row["date"])
            if key not in seen:
                seen.add(key)
                yield {"product_id": product_id, **row}


def _claims(data: Data) -> Iterator[dict[str, Any]]:
    for each in data.claims:
        claim = json.loads(each)
        claimed_at = datetime.fromisoformat(claim["couponTime"]).replace(tzinfo=ZONE)
        yield {**claim, "type": CLAIM_TYPE, "claimed_at_s": int(claimed_at.timestamp())}


def _materials(data: Data) -> Iterator[dict[str, Any]]:
    for promotion_id, listed in data.materials.items():
        for position, each in enumerate(listed):
            content = json.loads(each.replace(SLOT.encode(), b"@slot@"))
            yield {"promotion_id": promotion_id, "position": position, "content": content}
