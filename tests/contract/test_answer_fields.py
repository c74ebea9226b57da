"""Every field of an answer has a meaning in both languages, and no meaning is left over."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from tollway.contract.answer_fields import AnswerField, answer_fields, meanings
from tollway.contract.language import Phrase
from tollway.contract.receipt import Receipt
from tollway.gateway.oauth import TokenAnswer
from tollway.operations.account_api import ACCOUNT_OPERATIONS
from tollway.operations.catalogue import ALL_OPERATIONS
from tollway.pipeline.dry_run import DryRunAnswer

_ANSWERS = (
    *(each.response_type for each in (*ALL_OPERATIONS, *ACCOUNT_OPERATIONS)),
    *(Receipt, TokenAnswer, DryRunAnswer),
)


def _fields(kind: type[msgspec.Struct]) -> Iterator[tuple[type[msgspec.Struct], AnswerField]]:
    for field in answer_fields(kind):
        yield kind, field
        if field.inner is not None:
            yield from _fields(field.inner)


_ALL = [found for kind in _ANSWERS for found in _fields(kind)]


def test_every_field_has_a_meaning_in_both_languages() -> None:
    for kind, field in _ALL:
        assert field.meaning is not None, f"{kind.__name__}.{field.name}"
        assert field.meaning.en.endswith(".") and field.meaning.zh.endswith("。")
        assert field.meaning.en.isascii() and not field.meaning.zh.isascii()


def test_no_two_types_of_answers_have_one_name() -> None:
    types = {kind for kind, _ in _ALL}
    assert len(types) == len({kind.__name__ for kind in types})


def test_no_meaning_is_left_over() -> None:
    own = {
        (kind.__name__, field.name)
        for kind, field in _ALL
        if field.name in meanings().get(kind.__name__, {})
    }
    common = {
        ("any", field.name)
        for kind, field in _ALL
        if field.name not in meanings().get(kind.__name__, {})
    }
    written = {(kind, name) for kind, said in meanings().items() for name in said}
    assert written - own - common == set()


class _Described(msgspec.Struct):
    """As an installed package has it."""

    pieces: "int | None"
    by_day: "dict[str, int]"
    size: "Annotated[float, msgspec.Meta(description='In metres.')]"


def test_a_type_of_an_installed_package_is_listed_with_what_it_says() -> None:
    assert [(each.name, each.json_type, each.meaning) for each in answer_fields(_Described)] == [
        ("pieces", "integer | null", None),
        ("by_day", "object", None),
        ("size", "number", Phrase("In metres.", "In metres.")),
    ]
