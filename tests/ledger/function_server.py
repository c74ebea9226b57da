"""Stands for a shared database, to see what its functions for charging are called with.

It reads the functions' parameters where they are defined, and notes what each of them gets.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from tollway.ledger.charge_transaction import ChargeResults
from tollway.ledger.charges import Charge, IdempotencyKey
from tollway.store.database import Row
from tollway.store.query import Query

_SQL = files("tollway.store.migrations").joinpath("baseline/postgresql/charging.sql").read_text()
_FUNCTION = re.compile(r"CREATE FUNCTION (\w+)\((.*?)\) RETURNS", re.DOTALL)
_CALL = re.compile(r"(tollway_\w+)\((.*?)\)")
_NUMBER = re.compile(r"\$(\d+)")
PARAMETERS = {
    name: [each.split()[0] for each in parameters.split(",")]
    for name, parameters in _FUNCTION.findall(_SQL)
}
Post = Callable[[Any, Sequence[Charge]], Awaitable[ChargeResults]]
Rows = Sequence[tuple[object, ...]]


class Server:
    """Stands for a database and for a transaction on it.

    `answers` are what its function that charges returns or raises, call by call; then it charges
    all. `calls` has what that was called with, `statements` all that took a round trip.
    """

    is_shared = True
    keeps_records = False

    def __init__(self, *answers: Rows | Exception) -> None:
        self.calls: list[dict[str, Any]] = []
        self.statements: list[str] = []
        self.locked: dict[str, Any] = {}
        self.now_ms = 1000
        # The version of the directory, and those that the last charges came with.
        self.directory = 7
        self.directories: Any = None
        self._answers = list(answers)

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]:
        self.now_ms += 1
        compiled = query.postgresql
        found = _CALL.search(compiled.text)
        if found is None:
            self.statements.append("clock")
            return [(self.now_ms,)]
        name, arguments = found[1], compiled.arguments(values)
        numbers = [int(each) for each in _NUMBER.findall(found[2])]
        given = {
            parameter: arguments[number - 1]
            for parameter, number in zip(PARAMETERS[name], numbers, strict=True)
        }
        self.statements.append(name)
        if name == "tollway_lock":
            self.locked = given
            return [(None, self.now_ms, self.directory, None)]
        self.calls.append(given)
        self.directories = values.get("directories")
        answer = self._answers.pop(0) if self._answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer

    write_statement = fetch_all

    async def fetch_one(self, _: Query, **values: object) -> Row | None:
        """There is no row yet under any key. What a token has spent in a day is locked."""
        if "of_counter" in values:
            self.statements.append(f"day of {values['of_counter']}")
        return None

    async def execute(self, _: Query, **__: object) -> int:
        return 1

    async def execute_many(self, _: Query, rows: Iterable[object]) -> int:
        return len(list(rows))

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        yield

    @property
    def requests(self) -> list[list[str]]:
        """Which requests were in each call."""
        return [given["request_ids"] for given in self.calls]

    def post(self, post: Post, charges: Sequence[Charge]) -> ChargeResults:
        async def work() -> ChargeResults:
            return await post(self, charges)

        return asyncio.run(work())


def key(name: str, data: bytes = b"answer") -> IdempotencyKey:
    asked = f"print of {name}".encode()
    return IdempotencyKey(name, asked, asked.__eq__, lambda answer: b"sealed " + answer, data)


def charge(request_id: str, amount: int = 0, account: str = "acc", **more: Any) -> Charge:
    given = {"unit": "credits", "operation": "orders", "token_id": "tok", "at_ms": 7, **more}
    return Charge(account, amount=amount, request_id=request_id, **given)


def types_of(results: Mapping[int, object]) -> dict[int, type]:
    return {position: type(result) for position, result in results.items()}
