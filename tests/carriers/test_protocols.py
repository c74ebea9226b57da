"""Protocols of installed packages: which are found, and what none of them can get wrong."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from importlib.metadata import EntryPoint
from typing import Any

import httpx2
import msgspec
import pytest

from tests.carriers.conftest import carrier_with, link_to, new_order
from tollway.carriers import CarrierError
from tollway.carriers.carrier_links import OpenedCarrierLink
from tollway.carriers.carriers import Carrier
from tollway.carriers.connectors.connector import (
    Cancelled,
    Connector,
    Declined,
    Issued,
    NotSentError,
    OutcomeUnknownError,
)
from tollway.carriers.connectors.protocols import ENTRY_POINTS, Protocols
from tollway.carriers.connectors.remote_carriers import Remotes
from tollway.carriers.connectors.signed_form import SignedFormConnector
from tollway.contract.language import Phrase

NUMBER = "YT0000000000001"


class Spoken:
    """A protocol that answers what a test wants."""

    def __init__(self, client: httpx2.AsyncClient, carrier: Carrier, _: OpenedCarrierLink) -> None:
        self.client, self.carrier = client, carrier

    answer: Callable[[], Awaitable[Any]]

    async def issue(self, *_: object) -> Any:
        return await type(self).answer()

    look_up = cancel = issue


class Half:
    """What a waybill without an answer could never be settled with."""

    def __init__(self, *_: object) -> None:
        pass

    issue = cancel = Spoken.issue


def __getattr__(name: str) -> object:
    if name == "leaving":
        raise SystemExit(3)
    raise AttributeError(name)


def installed(*pairs: tuple[str, str]) -> Protocols:
    return Protocols(lambda: [EntryPoint(name, value, ENTRY_POINTS) for name, value in pairs])


SPOKEN = installed(("spoken", f"{__name__}:Spoken"))


def asked(question: Callable[[Connector], Awaitable[Any]], answer: object, **link: int) -> Any:
    """What comes of a question to a protocol that answers, or raises, this."""

    async def give() -> object:
        if isinstance(answer, Exception):
            raise answer
        return await answer() if callable(answer) else answer

    Spoken.answer = staticmethod(give)
    opened = link_to("https://courier.example/", **link)
    opened = OpenedCarrierLink(
        msgspec.structs.replace(opened.link, protocol="spoken"), opened.secret
    )

    async def work() -> Any:
        remotes = Remotes(httpx2.AsyncClient(), protocols=SPOKEN)
        try:
            return await question(remotes.connector(carrier_with(), opened))
        finally:
            await remotes.close()

    return asyncio.run(work())


def issue(to: Connector) -> Awaitable[object]:
    return to.issue(new_order())


def look_up(to: Connector) -> Awaitable[object]:
    return to.look_up(new_order().ref)


def cancel(to: Connector) -> Awaitable[object]:
    return to.cancel(new_order().ref, NUMBER)


def test_the_built_in_one_is_there_and_others_by_their_names() -> None:
    assert SPOKEN.names == ["cainiao-link", "signed-form", "spoken"]
    assert SPOKEN.named("signed-form") is SignedFormConnector
    assert SPOKEN.named("spoken").__name__ == "Spoken"  # type: ignore[attr-defined]


def test_the_built_in_one_cannot_be_replaced() -> None:
    taken = installed(("signed-form", f"{__name__}:Spoken"))
    assert taken.names == ["cainiao-link", "signed-form"]
    assert taken.named("signed-form") is SignedFormConnector


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        (
            (),
            "spoken is not installed here: install .* with cainiao-link or signed-form.",
        ),
        ((("spoken", "a:b"), ("spoken", "c:d")), "both bring the carrier protocol spoken"),
        ((("spoken", "no_such_module:X"),), r"cannot be loaded \(ModuleNotFoundError"),
        ((("spoken", f"{__name__}:Nothing"),), r"cannot be loaded \(AttributeError"),
        ((("spoken", f"{__name__}:leaving"),), r"cannot be loaded \(SystemExit: 3\)"),
        ((("spoken", f"{__name__}:NUMBER"),), r"\(TypeError: it is no class or function"),
        ((("spoken", f"{__name__}:issue"),), r"\(TypeError: it does not take three arguments"),
        ((("spoken", f"{__name__}:Half"),), r"\(TypeError: it has no method look_up\)"),
    ],
)
def test_one_that_is_missing_is_named_in_a_sentence_and_nothing_is_sent(
    pairs: tuple[tuple[str, str], ...], sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    protocols = installed(*pairs)
    with pytest.raises(CarrierError, match=sentence):
        protocols.named("spoken")
    opened = link_to("https://courier.example/")
    gone = OpenedCarrierLink(msgspec.structs.replace(opened.link, protocol="spoken"), "x")

    async def work() -> None:
        remotes = Remotes(httpx2.AsyncClient(), protocols=protocols)
        with pytest.raises(NotSentError, match=sentence):
            remotes.connector(carrier_with(), gone)
        # The others go on.
        assert remotes.connector(carrier_with(), opened)
        await remotes.close()

    asyncio.run(work())
    assert "carrier YTO cannot be asked: The" in caplog.text


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (issue, Issued(NUMBER)),
        (issue, Declined("No.")),
        (look_up, Issued(NUMBER)),
        (look_up, None),
        (cancel, Cancelled(NUMBER)),
        (cancel, Declined("No.")),
    ],
)
def test_every_answer_of_a_protocol_is_passed_on(question: Any, answer: object) -> None:
    assert asked(question, answer) == answer


@pytest.mark.parametrize("question", [issue, look_up])
@pytest.mark.parametrize("number", ["", "YT1", "^XA^FDYT0000000000001", "ZZ0000000000001"])
def test_a_number_of_another_format_does_not_count(question: Any, number: str) -> None:
    with pytest.raises(OutcomeUnknownError, match="not in its format"):
        asked(question, Issued(number))


@pytest.mark.parametrize("question", [issue, cancel])
def test_a_refusal_is_cut_to_what_can_be_passed_on(question: Any) -> None:
    assert asked(question, Declined(" a\x00b\n")) == Declined("ab")
    assert len(asked(question, Declined("x" * 1000)).reason) == 200
    both = asked(question, Declined(Phrase("\x00Frozen.", "已冻结。" * 100)))
    assert (both.said("en"), both.said("zh")) == ("Frozen.", "已冻结。" * 50)
    assert "no reason" in asked(question, Declined("")).said("en")
    assert "未说明原因" in asked(question, Declined("")).said("zh")


@pytest.mark.parametrize("question", [issue, look_up, cancel])
def test_whatever_a_protocol_raises_leaves_the_outcome_unknown(
    question: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(OutcomeUnknownError, match="on this side"):
        asked(question, KeyError("number"))
    assert "carrier YTO failed on this side" in caplog.text and "KeyError" in caplog.text
    for known in (NotSentError("a"), OutcomeUnknownError("b")):
        with pytest.raises(type(known)):
            asked(question, known)


def test_one_that_keeps_no_deadline_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(OutcomeUnknownError):
        asked(issue, lambda: asyncio.sleep(60), deadline_ms=50)


def test_one_that_fails_is_left_alone_like_any_other() -> None:
    async def five_failures(to: Connector) -> None:
        for _ in range(5):
            with pytest.raises(OutcomeUnknownError):
                await to.issue(new_order())
        await to.issue(new_order())

    with pytest.raises(NotSentError, match="5 times in a row"):
        asked(five_failures, ValueError())
