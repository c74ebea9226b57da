"""Subjects of installed packages: which are taken, and what is wrong with those that are not."""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from importlib.resources import files
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any

import msgspec
import pytest
from sqlalchemy import Column, String, Table

from tests.support.late import late
from tollway.contract.fields import Choice, Field, Text
from tollway.contract.language import Phrase
from tollway.contract.operation import ConsentNeed, Encoding, Operation, OwnerKind, Unit
from tollway.contract.reasons import Reason
from tollway.gateway.openapi import openapi
from tollway.operations.catalogue import OPERATIONS, SUBJECTS
from tollway.operations.installed import ENTRY_POINTS, with_installed
from tollway.operations.orders import SUBJECT as ORDERS
from tollway.operations.subject import Subject
from tollway.settings import SettingsError
from tollway.store.schema import metadata
from tollway.web import account_parts
from tollway.web.blocks import Cell
from tollway.web.code_samples import samples_of
from tollway.web.reference_parts import fields_of, parameters_of
from tollway.web.wording import PLAIN_VIEW

pytestmark = pytest.mark.sqlite
MODULE = "a_package_of_a_test"


class Request(msgspec.Struct, frozen=True):
    owner_id: Annotated[str, Field(Text(max_length=64), "Shop owner id.")]


class Nothing(msgspec.Struct, frozen=True):
    pass


class Undeclared(msgspec.Struct, frozen=True):
    owner_id: str


class Wrong(msgspec.Struct, frozen=True):
    owner_id: Annotated[str, Field(Text(max_length=64), 5)]  # type: ignore[arg-type]


class Result(msgspec.Struct, frozen=True):
    withholding_money: int


NEED = ConsentNeed(OwnerKind.SHOP, "owner_id", "sixth", "try a sixth operation")
SIXTH = Operation(
    name="sixth",
    title="A sixth operation",
    method="GET",
    path="/papi/tool/sixth",
    encoding=Encoding.QUERY,
    request_type=Request,
    response_type=Result,
    unit=Unit.CREDITS,
    default_price=1,
    consent=NEED,
)


@pytest.fixture(autouse=True)
def package() -> Iterator[ModuleType]:
    """A module that an entry point can name."""
    sys.modules[MODULE] = ModuleType(MODULE)
    yield sys.modules[MODULE]
    del sys.modules[MODULE]


def subject(operation: Operation = SIXTH, **changes: Any) -> Subject:
    plain = Subject(operation=operation, make_handler=lambda _: None)  # type: ignore[arg-type, return-value]
    return msgspec.structs.replace(plain, **changes)


def of_wrong_type(**changes: Any) -> Subject:
    return subject(replace(SIXTH, **changes))


def taken(*brought: object) -> list[Subject]:
    """All subjects, with those that a package brings."""
    found = []
    for number, each in enumerate(brought):
        vars(sys.modules[MODULE])[f"subject_{number}"] = each
        found.append(EntryPoint(f"e{number}", f"{MODULE}:subject_{number}", ENTRY_POINTS))
    return list(with_installed(SUBJECTS, found))


def test_without_a_package_there_are_the_built_in_ones() -> None:
    assert tuple(taken()) == SUBJECTS


def test_an_installed_one_comes_after_the_built_in_ones() -> None:
    sixth, seventh = subject(), subject(replace(SIXTH, name="seventh", path="/papi/x"))
    found = [each.operation for each in taken(sixth, seventh)]
    assert found == [each.operation for each in (*SUBJECTS, sixth, seventh)]


@pytest.mark.parametrize(
    ("brought", "sentence"),
    [
        (SIXTH, "subject_0 is no tollway.operations.subject.Subject"),
        (None, "subject_0 is no tollway.operations.subject.Subject"),
        (subject(replace(SIXTH, name="orders")), "there is another operation orders"),
        (
            subject(replace(SIXTH, path="/papi/tool/erps/paging-orders")),
            "there is another operation at /papi/tool/erps/paging-orders",
        ),
        (subject(replace(SIXTH, name='six"th')), "the name 'six\"th' is not made of a-z"),
        (subject(replace(SIXTH, path="/owner")), "the path '/owner' is not /papi/ followed"),
        (subject(replace(SIXTH, path="/papi/a%2Fb")), "is not /papi/ followed by plain words"),
        (subject(replace(SIXTH, method="POST")), "query go with GET and not with POST"),
        (subject(replace(SIXTH, encoding=Encoding.JSON)), "json go with POST and not with GET"),
        (subject(replace(SIXTH, default_price=-1)), "its price is negative"),
        (of_wrong_type(default_price=1.5), "its default_price is 1.5 and no int"),
        (of_wrong_type(default_price="1"), "its default_price is '1' and no int"),
        (of_wrong_type(unit="credits"), "its unit is 'credits' and no Unit"),
        (of_wrong_type(encoding="query"), "its encoding is 'query' and no Encoding"),
        (of_wrong_type(title=""), "its title is empty"),
        (of_wrong_type(title=Phrase("Sixth", " ")), "its title is empty"),
        (
            of_wrong_type(title=("Sixth", "第六")),
            "its title is ('Sixth', '第六') and neither a str nor a Phrase",
        ),
        (of_wrong_type(note=None), "its note is None and neither a str nor a Phrase"),
        (
            subject(replace(SIXTH, consent=replace(NEED, asks=Phrase("try", "")))),
            "what its consent asks is empty",
        ),
        (
            subject(replace(SIXTH, consent=replace(NEED, asks=b"try"))),  # type: ignore[arg-type]
            "what its consent asks is b'try' and neither a str nor a Phrase",
        ),
        (
            subject(replace(SIXTH, request_type=Wrong)),
            "the meaning of owner_id is 5 and neither a str nor a Phrase",
        ),
        (of_wrong_type(own_reasons=Reason.NOTHING_FOUND), " and no tuple"),
        (of_wrong_type(own_reasons=("NOTHING_FOUND",)), "have 'NOTHING_FOUND' and no Reason"),
        (of_wrong_type(consent="orders"), "its consent is 'orders' and no ConsentNeed"),
        (of_wrong_type(request_type=dict), "its request_type is <class 'dict'> and no msgspec.S"),
        (of_wrong_type(response_type=dict), "its response_type is <class 'dict'> and no msgspec.S"),
        (subject(replace(SIXTH, response_type=Nothing)), "has no field withholding_money"),
        (subject(replace(SIXTH, request_type=Undeclared)), "owner_id has no Field annotation"),
        (subject(replace(SIXTH, request_type=Nothing)), "has no field owner_id to name the owner"),
        (
            subject(replace(SIXTH, consent=replace(NEED, scope="orders"))),
            "orders asks for the scope orders in other words",
        ),
        (subject(records=ORDERS.records), "it brings records"),
        (subject(retained=ORDERS.retained), "it brings records"),
    ],
)
def test_one_that_cannot_be_used_is_refused_in_a_sentence(brought: object, sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        taken(brought)
    text = str(refused.value)
    assert text.startswith("The package e0 cannot be used, because ") and sentence in text
    assert text.endswith(": correct it or uninstall it.")


def test_two_packages_cannot_bring_the_same_name() -> None:
    with pytest.raises(SettingsError, match=r"The package e1 .* another operation sixth"):
        taken(subject(), subject(replace(SIXTH, path="/papi/x")))


def test_a_scope_may_be_shared_in_the_same_words() -> None:
    assert ORDERS.operation.consent is not None
    shared = subject(replace(SIXTH, consent=ORDERS.operation.consent))
    assert taken(shared)[-1].operation is shared.operation


def test_one_that_fails_to_load_is_refused_with_the_error() -> None:
    missing = EntryPoint("e", "no_such_module:SUBJECT", ENTRY_POINTS)
    with pytest.raises(SettingsError, match=r"cannot be loaded \(ModuleNotFoundError: .*no_such"):
        list(with_installed(SUBJECTS, [missing]))


def test_one_that_ends_the_program_is_refused_too(package: ModuleType) -> None:
    def leave(name: str) -> object:
        raise SystemExit(3)

    package.__getattr__ = leave  # type: ignore[method-assign]
    entry_point = EntryPoint("e", f"{MODULE}:SUBJECT", ENTRY_POINTS)
    with pytest.raises(SettingsError, match=r"cannot be loaded \(SystemExit: 3\)"):
        list(with_installed(SUBJECTS, [entry_point]))


def test_one_cannot_add_tables(package: ModuleType) -> None:
    def define(name: str) -> object:
        Table("sixth", metadata, Column("id", String, primary_key=True))
        return subject()

    package.__getattr__ = define  # type: ignore[method-assign]
    entry_point = EntryPoint("e", f"{MODULE}:SUBJECT", ENTRY_POINTS)
    try:
        with pytest.raises(SettingsError, match="it adds the table sixth to those of Tollway"):
            list(with_installed(SUBJECTS, [entry_point]))
    finally:
        metadata.remove(metadata.tables["sixth"])


OrderPage = type("OrderPage", (msgspec.Struct,), {"__annotations__": {"withholding_money": int}})


@pytest.mark.parametrize(
    "changes",
    [
        {"response_type": OrderPage},
        {"request_type": Nothing, "consent": None},
    ],
    ids=["an answer named like one of ours", "no parameters"],
)
def test_the_description_stays_valid(changes: dict[str, Any]) -> None:
    sixth = replace(SIXTH, **changes)
    document = openapi([*OPERATIONS, sixth], "http://127.0.0.1:8080", mapped=False)
    late("openapi_spec_validator").validate(document)
    described = document["paths"][SIXTH.path]["get"]
    payload, *_ = described["responses"]["200"]["content"]["application/json"]["schema"][
        "properties"
    ]["data"]["anyOf"]
    name = payload["$ref"].removeprefix("#/components/schemas/")
    assert list(document["components"]["schemas"][name]["properties"]) == ["withholding_money"]


class SpokenRequest(msgspec.Struct, frozen=True):
    owner_id: Annotated[str, Field(Text(max_length=64), Phrase("Whose {it} is.", "属于谁 {它}。"))]


class SpokenResult(msgspec.Struct, frozen=True):
    withholding_money: Annotated[int, Phrase("What {it} cost.", "扣了多少 {它}。")]


SPOKEN = replace(
    SIXTH,
    title=Phrase("A sixth operation", "第六个接口"),
    note=Phrase("Look {twice}.", "请看 {两遍}。"),
    request_type=SpokenRequest,
    response_type=SpokenResult,
)


def test_texts_in_both_languages_are_shown_to_each_reader() -> None:
    assert taken(subject(SPOKEN))[-1].operation is SPOKEN
    for language, texts in (
        ("en", ("Whose {it} is.", "What {it} cost.", "A sixth operation", "Look {twice}.")),
        ("zh", ("属于谁 {它}。", "扣了多少 {它}。", "第六个接口", "请看 {两遍}。")),
    ):
        view = PLAIN_VIEW._replace(language=language)
        tables = [parameters_of(SPOKEN, view), fields_of(SPOKEN, view)]
        shown = str([*tables, view.say(SPOKEN.title), view.say(SPOKEN.note)])
        assert [each for each in texts if each not in shown] == []


def test_the_description_of_one_in_both_languages_is_in_english() -> None:
    document = openapi([*OPERATIONS, SPOKEN], "http://127.0.0.1:8080", mapped=False)
    late("openapi_spec_validator").validate(document)
    described = document["paths"][SIXTH.path]["get"]
    assert (described["summary"], described["description"]) == (
        "A sixth operation",
        "Look {twice}.",
    )
    assert described["parameters"][0]["schema"]["description"].startswith("Whose {it} is. ")
    result = document["components"]["schemas"]["SpokenResult"]["properties"]
    assert result["withholding_money"]["description"] == "What {it} cost."


class BracedRequest(msgspec.Struct, frozen=True):
    kind: Annotated[int, Field(Choice(((1, "as {name: value}"),)), "Which {kind}.")]


class BracedResult(msgspec.Struct, frozen=True):
    withholding_money: Annotated[int, msgspec.Meta(description="In {credits}.")] = 0


def test_texts_with_braces_are_shown_as_they_are() -> None:
    braced = replace(SIXTH, request_type=BracedRequest, response_type=BracedResult)
    shown = str([parameters_of(braced, PLAIN_VIEW), fields_of(braced, PLAIN_VIEW)])
    for each in ("1 (as {name: value})", "Which {kind}.", "In {credits}."):
        assert each in shown


def test_samples_use_no_method_that_the_packages_do_not_have() -> None:
    for operation, languages in (
        (SIXTH, ["curl", "PHP", "Java"]),
        (ORDERS.operation, ["curl", "Python", "JavaScript", "PHP", "Java"]),
    ):
        samples = samples_of(operation, {"owner_id": "1"}, "http://127.0.0.1")
        assert [name for name, _ in samples] == languages


def test_charts_have_a_colour_for_each_of_many_operations() -> None:
    styles = files("tollway.web").joinpath("pages.css").read_text(encoding="utf-8")
    context: Any = SimpleNamespace(say=PLAIN_VIEW.say, number=lambda number: Cell(str(number)))
    names = [f"op{number}" for number in range(12)]
    calls = {key: [1] for key in names}
    many = [replace(SIXTH, name=name) for name in names]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(account_parts, "OPERATIONS", many)
        chart = account_parts.calls_chart(context, "", "Day", ["1"], calls)
    colours = set(re.findall(r"bar\d+", str(chart)))
    assert len(colours) > 5 and all(f".chart .{each} {{ fill:" in styles for each in colours)
