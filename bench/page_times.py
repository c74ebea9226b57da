"""How long do the pages take when there is much to show?

Makes accounts, ledger entries and refused calls by bulk insert, serves them, signs in as an
operator and as a member, and asks for each page several times. Prints the median of each, the
slowest, and the CPU time of the gateway for one, which other work on the machine changes less. Then
the same while paid calls go on at half of the peak (`bench/paid_beside.py`). Ends with status 1 if
a median is over its limit, or the p99 of the calls is over 1.5 times that without pages. With
`--postgresql URL` (an empty database) on that engine. Needs wrk.

    .venv/bin/python -m bench.page_times
    .venv/bin/python -m bench.page_times --entries 1000000 --refused 100000
"""

import argparse
import asyncio
import html
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import httpx

from bench import paid_beside
from bench.servers import cpu_s, free_port

LIMIT_MS = 60
ACCOUNTS = 10_000
ROUNDS = 15
UNIT = "calls:product_analysis"
# A month of calls, the newest a minute ago. Half of the entries are of the account that is shown.
SPAN_MS = 30 * 86_400_000
ACCOUNTS_SQL = """
INSERT INTO account (id, name, opened_at_s, closed_at_s)
SELECT {account}, 'Load ' || n, {now_s} - n, NULL FROM {series_accounts}"""
PERMISSIONS_SQL = """
INSERT INTO permission (account_id, operation, price, rate_limit)
SELECT {account}, 'product_analysis', NULL, NULL FROM {series_accounts}"""
BALANCES_SQL = """
INSERT INTO balance (account_id, unit, amount, held, posted, entries)
SELECT account_id, unit, 1000000, 0, count(*), count(*) FROM entry GROUP BY account_id, unit"""
ENTRIES_SQL = """
INSERT INTO entry (account_id, unit, number, kind, amount, balance_after, at_ms, operation,
    request_id, token_id, note)
SELECT {owner}, '{unit}', {number}, 'charge', -1, 1000000, {at_ms}, 'product_analysis',
    {request_id}, 'tok_load', NULL
FROM {series}"""
# Sums of usage as the gateway makes them, days by their date in its time zone; minutes of the last
# hours.
USAGE_SQL = """
INSERT INTO usage (span_s, start_s, account_id, unit, operation, calls, amount)
SELECT {span}, (at_ms / 1000 + 28800) / {span} * {span}
    - CASE WHEN {span} = 86400 THEN 0 ELSE 28800 END, account_id, unit, operation, count(*),
    -sum(amount)
FROM entry WHERE at_ms > {since_ms} GROUP BY 2, account_id, unit, operation"""
DAYS_SQL = """
INSERT INTO entry_day (account_id, unit, day, kind, operation, entries, amount, first_number,
    last_number)
SELECT account_id, unit, at_ms / 86400000, kind, operation, count(*), sum(amount), min(number),
    max(number)
FROM entry GROUP BY account_id, unit, 3, kind, operation"""
CURSORS_SQL = """
INSERT INTO usage_cursor (account_id, unit, number, skipped)
SELECT account_id, unit, entries, 0 FROM balance"""
REFUSED_SQL = """
INSERT INTO refused_call (account_id, request_id, at_ms, operation, code, reason, is_test)
SELECT {owner}, {request_id}, {at_ms}, 'product_analysis', 100, 'PARAMETER_MISSING', 0
FROM {series}"""


def statements(entries: int, refused: int, dialect: str) -> Iterator[str]:
    """The inserts. The newest half of the numbers is of the first account."""
    now_s = int(time.time())
    is_shared = dialect == "postgresql"

    def series(count: int) -> str:
        if is_shared:
            return f"generate_series(1, {count}) AS n"
        return (
            f"(WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < {count}) "
            "SELECT n FROM up)"
        )

    def padded(value: str) -> str:
        return f"lpad(({value})::text, 12, '0')" if is_shared else f"printf('%012d', {value})"

    def hexed(value: str, digits: int) -> str:
        if is_shared:
            return f"lpad(to_hex(({value})::bigint), {digits}, '0')"
        return f"printf('%0{digits}x', {value})"

    def rows(count: int, salt: int) -> dict[str, str]:
        at_ms = f"({now_s * 1000 - 60_000 - SPAN_MS} + n * {SPAN_MS} / {count})"
        if is_shared:
            at_ms = f"({now_s * 1000 - 60_000 - SPAN_MS} + n::bigint * {SPAN_MS} / {count})"
        rest = f"n * 16 + {salt}"
        which = f"CASE WHEN n % 2 = 0 THEN 1 ELSE 2 + n % {ACCOUNTS - 1} END"
        return {
            "owner": f"'acc_' || {padded(which)}",
            "at_ms": at_ms,
            "request_id": f"{hexed(f'{at_ms} * 1000 + n % 1000', 13)} || {hexed(rest, 13)}",
            "series": series(count),
            "number": f"CASE WHEN n % 2 = 0 THEN n / 2 ELSE 1 + n / {2 * (ACCOUNTS - 1)} END",
            "unit": UNIT,
        }

    common = {"account": f"'acc_' || {padded('n')}", "now_s": str(now_s)}
    common["series_accounts"] = series(ACCOUNTS)
    yield ACCOUNTS_SQL.format(**common)
    yield PERMISSIONS_SQL.format(**common)
    # What is odd goes to the other accounts in turn, numbered without a gap within each.
    yield ENTRIES_SQL.format(**rows(entries, 1))
    yield BALANCES_SQL
    for span, since_ms in ((86_400, 0), (3600, 0), (60, now_s * 1000 - 7_200_000)):
        yield USAGE_SQL.format(span=span, since_ms=since_ms)
    yield DAYS_SQL
    yield CURSORS_SQL
    yield REFUSED_SQL.format(**rows(refused, 2))


async def fill_postgresql(url: str, entries: int, refused: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements(entries, refused, "postgresql"):
            await connection.execute(statement, timeout=3600)
        await connection.execute("ANALYZE", timeout=3600)
    finally:
        await connection.close()


def fill_sqlite(path: Path, entries: int, refused: int) -> None:
    # Imported here: a measurement on PostgreSQL does not need it.
    import apsw  # noqa: PLC0415

    with apsw.Connection(str(path)) as connection:
        connection.execute("PRAGMA cache_size = -262144").fetchall()
        for statement in statements(entries, refused, "sqlite"):
            connection.execute(statement).fetchall()


def settings_of(folder: Path, url: str) -> dict[str, str]:
    files = {f"TOLLWAY_{each}_FILE": f"{folder}/{each}" for each in ("KEY", "SECRET")}
    return {**os.environ, "TOLLWAY_DATABASE": url, **files}


@contextmanager
def served(folder: Path, url: str, port: int) -> Iterator[tuple[str, int]]:
    """A gateway on the database: the link that signs its operator in, and its process."""
    command = [sys.executable, "-m", "tollway", "serve", "--json", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=settings_of(folder, url),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert process.stdout is not None
            started = json.loads(process.stdout.readline())
            yield started["operator_link"], process.pid
        finally:
            process.terminate()
            process.wait(30)


def sign_in(client: httpx.Client, link: str) -> None:
    page = client.get(link).text
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page)
    path = link.partition("?")[0]
    client.post(path, data={name: html.unescape(value) for name, value in found})


def member_link(client: httpx.Client, account: str) -> str:
    page = client.get(f"/operator/account?id={account}").text
    token = re.search(r'name="form_token" value="([^"]*)"', page)
    assert token is not None
    fields = {"form_token": token[1], "account": account, "name": "Mei"}
    shown = client.post(
        "/operator/account/invite", data={**fields, "login": "mei.load", "role": "owner"}
    ).text
    link = re.search(r'<code id="[^"]*">([^<]+)</code>', shown)
    assert link is not None
    return html.unescape(link[1])


def pages(client: httpx.Client, account: str) -> list[str]:
    log = client.get(f"/operator/requests?account={account}").text
    request = re.search(r"/operator/request\?id=([0-9a-f]+)", log)
    older = re.search(r'href="([^"]+)" rel="next"', log)
    assert request is not None and older is not None
    return [
        *("/", "/operator", "/operator/accounts", "/operator/accounts?q=Load 99"),
        *("/operator/requests", "/operator/requests?reason=SUCCESS"),
        *("/operator/requests?reason=PARAMETER_MISSING", html.unescape(older[1])),
        *(f"/operator/account?id={account}", f"/operator/account/ledger?id={account}&unit={UNIT}"),
        *(f"/operator/request?id={request[1]}", "/operator/shops", "/operator/carriers"),
        "/operator/waybills",
        *("/operator/data", "/operator/prices", "/operator/nodes", "/operator/audit"),
        *("/operator/backup", "/operator/trail", "/operator/settings"),
        *("/account", "/account/requests", f"/account/request?id={request[1]}"),
        *(f"/account/ledger?unit={UNIT}", "/account/tokens", "/account/shops", "/account/members"),
        *("/account/analysis", "/docs"),
    ]


def measure(client: httpx.Client, path: str, process: int) -> tuple[float, float, float]:
    taken, before_s = [], cpu_s(process)
    for _ in range(ROUNDS):
        began = time.perf_counter()
        answer = client.get(path)
        taken.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
    return statistics.median(taken), max(taken), (cpu_s(process) - before_s) * 1000 / ROUNDS


def beside_calls(client: httpx.Client, port: int, request: bytes, paths: list[str]) -> list[str]:
    """Prints what pages and paid calls take beside each other; returns what is over its limit."""

    def ask(path: str) -> float:
        began = time.perf_counter()
        answer = client.get(path)
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
        return (time.perf_counter() - began) * 1000

    found = paid_beside.measure(port, request, paths, ask)
    halves = [each / 2 for each in found.peaks]
    print(
        f"beside {statistics.median(halves):,.0f} paid calls a second "
        f"({min(halves):,.0f} to {max(halves):,.0f}), half of the peak at that moment:"
    )
    over = []
    for path, taken in found.pages_ms.items():
        median = statistics.median(taken)
        over += [f"{path} beside calls"] if median > LIMIT_MS else []
        print(f"{median:8.1f} ms  most {max(taken):7.1f}  {path}")
    alone, beside = (statistics.median(each) for each in zip(*found.p99_ms, strict=True))
    print(
        f"p99 of the calls: {alone:.1f} ms alone, {beside:.1f} ms beside two pages a second, "
        f"{found.ratio:.2f} times (median of {len(found.p99_ms)} pairs)",
        flush=True,
    )
    return [*over, "p99 of the calls"] if found.ratio > paid_beside.RATIO_MAX else over


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=10_000_000)
    parser.add_argument("--refused", type=int, default=1_000_000)
    parser.add_argument("--postgresql", help="the URL of an empty database", default="")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
        folder = Path(name)
        url = chosen.postgresql or f"sqlite:///{folder}/load.db"
        migrate = [sys.executable, "-m", "tollway", "migrate"]
        subprocess.run(
            migrate, cwd=folder, env=settings_of(folder, url), stdout=subprocess.DEVNULL, check=True
        )
        began = time.perf_counter()
        if chosen.postgresql:
            asyncio.run(fill_postgresql(url, chosen.entries, chosen.refused))
        else:
            fill_sqlite(folder / "load.db", chosen.entries, chosen.refused)
        print(
            f"{chosen.entries:,} entries, {chosen.refused:,} refused calls, {ACCOUNTS:,} accounts"
        )
        print(f"made in {time.perf_counter() - began:.0f} s", flush=True)
        request = paid_beside.paid_request(url)
        account, over, port = "acc_000000000001", [], free_port()
        with served(folder, url, port) as (link, process):
            base = link.partition("/operator")[0]
            with httpx.Client(base_url=base, follow_redirects=True, timeout=60) as client:
                sign_in(client, link)
                sign_in(client, member_link(client, account))
                paths = pages(client, account)
                for path in paths:
                    median, most, cpu = measure(client, path, process)
                    over += [path] if median > LIMIT_MS else []
                    figures = f"{median:8.1f} ms  most {most:7.1f}  CPU {cpu:5.1f}"
                    print(f"{figures}  {path}", flush=True)
                over += beside_calls(client, port, request, paths)
    sys.exit(f"over the limit: {', '.join(over)}" if over else 0)


if __name__ == "__main__":
    main()
