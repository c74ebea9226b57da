"""How deeply a JSON value is nested, and how many parts it has."""

from typing import Any

from tollway.contract.language import Phrase

# Half of Python's recursion limit, so that recursive functions can process the value. The limits of
# JSON parsers differ: since Python 3.12 theirs is many times that.
LEVELS_MAX = 500
TOO_DEEP = Phrase(f"it is nested on more than {LEVELS_MAX} levels", f"嵌套超过 {LEVELS_MAX} 层")
# Four times the members of the largest batch of waybills, and more than most bodies have bytes. A
# list of hundreds of thousands takes as long to parse as a hundred calls.
PARTS_MAX = 16_384
TOO_MANY_PARTS = Phrase(f"it has more than {PARTS_MAX} parts", f"内容超过 {PARTS_MAX} 项")


def has_too_many_parts(body: bytes) -> bool:
    """Whether a JSON body has more than PARTS_MAX lists and elements, counted without parsing it:
    commas and brackets in texts count too."""
    return body.count(b",") + body.count(b"[") > PARTS_MAX


def is_too_deep(values: dict[str, object]) -> bool:
    """Whether lists or objects are nested more than LEVELS_MAX deep. Goes level by level, because
    such a value would exceed the recursion limit."""
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
