"""Which engine the databases of the running test are on."""

from typing import Literal

Engine = Literal["sqlite", "postgresql"]
ENGINES: tuple[Engine, ...] = ("sqlite", "postgresql")
_in_use: list[Engine] = ["sqlite"]


def use(engine: Engine) -> None:
    _in_use[0] = engine


def in_use() -> Engine:
    return _in_use[0]
