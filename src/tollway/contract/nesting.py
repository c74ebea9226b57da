"""How deep a value of JSON is nested, and how many parts it has."""

from typing import Any

from tollway.contract.language import Phrase

# Half of what Python allows its own functions, so that each that goes through the value can. How
# much the readers of JSON allow differs: since Python 3.12 it is many times that.
LEVELS_MAX = 500
TOO_DEEP = Phrase(f"it is nested on more than {LEVELS_MAX} levels", f"嵌套超过 {LEVELS_MAX} 层")
# Four times as many as the members that a batch of waybills can have, and more than most bodies
# have bytes: a list of hundreds of thousands takes as long to read as a hundred calls.
PARTS_MAX = 16_384
TOO_MANY_PARTS = Phrase(f"it has more than {PARTS_MAX} parts", f"内容超过 {PARTS_MAX} 项")


def has_too_many_parts(body: bytes) -> bool:
    """Whether JSON has more lists and elements than that, counted before it is read; what is
    within a text counts too."""
    return body.count(b",") + body.count(b"[") > PARTS_MAX


def is_too_deep(values: dict[str, object]) -> bool:
    """Whether lists or objects are nested on more levels than that. It looks at level after level,
    because a function that calls itself would be what such a value stops."""
    level: list[Any] = [values]
    for _ in range(LEVELS_MAX):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True
