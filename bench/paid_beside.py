"""Pages while paid calls go on at half of the peak: how long the pages take, and the calls.

Slices take turns: calls alone, then the same calls while some of the pages are asked for. Each pair
of slices gives one ratio of the p99 of the calls. The slices are short, and the peak is measured
again before each pair: half of a peak of minutes ago can be more than a machine whose speed changes
takes now.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from bench.load import full, paced
from bench.results import MAIN
from tests.support.gateway import ANALYSIS
from tollway.ledger.accounts import open_account
from tollway.ledger.entries import top_up
from tollway.ledger.permissions import RATE_MAX, Permission, add_permission
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import issue_token
from tollway.operations.product_analysis.demo import fill_figures, product_ids
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.store.open import open_database
from tollway.telemetry.metrics import Metrics

RATIO_MAX = 1.5
# How often each page is asked for.
ROUNDS = 7
# Two pages a second are ten people who each open one every five seconds.
PAGE_EVERY_S = 0.5
# What a slice asks for, which makes one of four seconds.
_PAGES = 8
_PEAK_S = 2.0
_MANY = 10**9


class Found(NamedTuple):
    """The peaks, the p99 of calls alone and beside pages as pairs, and the times of each page."""

    peaks: list[float]
    p99_ms: list[tuple[float, float]]
    pages_ms: dict[str, list[float]]

    @property
    def ratio(self) -> float:
        return statistics.median(beside / alone for alone, beside in self.p99_ms)


def paid_request(url: str) -> bytes:
    """A call of an account that can make any number of them."""
    return asyncio.run(_paid_request(url))


async def _paid_request(url: str) -> bytes:
    database, runtime = open_database(url, Metrics()), Runtime()
    day = date.today() - timedelta(days=1)  # noqa: DTZ011 - any day will do that has passed
    await fill_figures(database, products=1, days=3, last=day)
    account_id = (await open_account(database, runtime, "Paying")).id
    await add_permission(database, account_id, Permission(PRODUCT_ANALYSIS.name, None, RATE_MAX))
    await top_up(database, runtime, account_id, PRODUCT_ANALYSIS.balance_unit, _MANY)
    token = (await issue_token(database, runtime, account_id)).text
    await database.close()
    query = urlencode({"product_id": product_ids(1)[0], "query_date": day.isoformat()})
    head = f"GET {ANALYSIS}?{query} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}"
    return f"{head}\r\n\r\n".encode()


def measure(port: int, request: bytes, paths: Sequence[str], ask: Callable[[str], float]) -> Found:
    """Asks for the pages; `ask` returns how long one took."""
    pages_ms: dict[str, list[float]] = {path: [] for path in paths}
    peaks, pairs = [], []
    # The calls are made by a process of their own: they never sleep.
    with ProcessPoolExecutor(1) as other, tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(request)

        def calls(rate: float, seconds: float, meanwhile: Sequence[str]) -> float:
            made = other.submit(paced, port, [request], rate, seconds, MAIN, 0)
            began_s = time.monotonic()
            for number, path in enumerate(meanwhile):
                time.sleep(max(0.0, began_s + number * PAGE_EVERY_S - time.monotonic()))
                pages_ms[path].append(ask(path))
            load = made.result()
            assert not load.refused, f"{load.refused} calls were refused"
            return load.p99_ms

        for chosen in ROUNDS * [paths[at : at + _PAGES] for at in range(0, len(paths), _PAGES)]:
            peaks.append(full(port, Path(file.name), _PEAK_S, MAIN, 0).rate)
            rate, seconds = peaks[-1] / 2, len(chosen) * PAGE_EVERY_S
            pairs.append((calls(rate, seconds, ()), calls(rate, seconds, chosen)))
    return Found(peaks, pairs, pages_ms)
