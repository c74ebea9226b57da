"""The fields of the answers: their types, and what they mean in both languages.

The meanings of the built-in answers are in `answer_fields.toml`. A type of an installed package
says them itself, as `Annotated[..., Phrase("...", "...")]`, or in one language as
`Annotated[..., msgspec.Meta(description="...")]`.
"""

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from tollway.contract.language import Phrase

_SAME_AS = "= "
# By their names in JSON.
_TYPES: dict[object, str] = {int: "integer", float: "number", bool: "boolean", Any: "object"}


class AnswerField(NamedTuple):
    """One field of a type; `other_spelling` is another field of the type with the same value."""

    name: str
    # Such as object[] or integer | null.
    json_type: str
    is_list: bool
    # The type of an object, or of the objects in a list.
    inner: type[msgspec.Struct] | None
    meaning: Phrase | None
    other_spelling: str | None


class PlacedField(NamedTuple):
    """A field with its whole path in an answer, such as content[].order_sn."""

    path: str
    field: AnswerField


@cache
def meanings() -> dict[str, dict[str, Any]]:
    """The table of meanings, by type and field."""
    text = files("tollway.contract").joinpath("answer_fields.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def answer_fields(answer_type: type[msgspec.Struct]) -> tuple[AnswerField, ...]:
    """The fields of one type, in the order in which they are sent."""
    # An installed package may have a type with the name of one of ours.
    is_ours = answer_type.__module__.startswith("tollway.")
    own = meanings().get(answer_type.__name__, {}) if is_ours else {}
    common = meanings()["any"] if is_ours else {}
    other_spellings = {
        name: said.removeprefix(_SAME_AS) for name, said in own.items() if isinstance(said, str)
    }
    other_spellings |= {known: name for name, known in other_spellings.items()}
    found = []
    for name, hint in get_type_hints(answer_type, include_extras=True).items():
        said = own.get(name, common.get(name))
        if isinstance(said, str):
            said = own[other_spellings[name]]
        json_type, is_list, inner = _json_type(hint)
        found.append(
            AnswerField(
                name,
                json_type=json_type,
                is_list=is_list,
                inner=inner,
                meaning=Phrase(*said) if said else _described(hint),
                other_spelling=other_spellings.get(name),
            )
        )
    return tuple(found)


def _json_type(hint: Any) -> tuple[str, bool, type[msgspec.Struct] | None]:
    """The JSON type, whether it is a list, and the type of the object in it."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else ()
    may_be_null = type(None) in members
    hint = next((each for each in members if each is not type(None)), hint)
    is_list = get_origin(hint) is list
    plain = get_args(hint)[0] if is_list else hint
    inner = plain if isinstance(plain, type) and issubclass(plain, msgspec.Struct) else None
    is_object = inner is not None or get_origin(plain) is dict
    word = "object" if is_object else _TYPES.get(plain, "string")
    word += "[]" if is_list else ""
    return f"{word} | null" if may_be_null else word, is_list, inner


def _described(hint: Any) -> Phrase | None:
    """The meaning that a type of an installed package gives its field."""
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    for each in notes:
        if isinstance(each, Phrase):
            return each
        if isinstance(each, msgspec.Meta) and each.description:
            return Phrase(each.description, each.description)
    return None


def placed_fields(answer_type: type[msgspec.Struct], prefix: str = "") -> Iterator[PlacedField]:
    """All fields of an answer, each object before its own fields."""
    for field in answer_fields(answer_type):
        yield PlacedField(f"{prefix}{field.name}", field)
        if field.inner is not None:
            mark = "[]" if field.is_list else ""
            yield from placed_fields(field.inner, f"{prefix}{field.name}{mark}.")
