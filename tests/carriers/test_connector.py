"""Every outcome of a message to a carrier, over real HTTP, beside what its journal says."""

import logging
import time
from pathlib import Path

import pytest

from tests.carriers.conftest import FORMAT, RECIPIENT, SENDER, ask, link_to, new_order
from tests.support.fake_carrier import CANCEL, ISSUE, LOOK_UP, SECRET, FakeCarrier
from tests.support.ports import free_port
from tollway.carriers.connectors import http_exchange, remote_carriers, signed_form
from tollway.carriers.connectors.connector import (
    Cancelled,
    ConnectorError,
    Declined,
    Issued,
    NotSentError,
    OutcomeUnknownError,
)

# What went wrong, and how many numbers the carrier has given all the same.
UNANSWERED = [
    ("stall_before_commit", 0),
    ("stall_after_commit", 1),
    ("cut_before_commit", 0),
    ("cut_after_commit", 1),
    ("cut_in_answer", 1),
    ("garbage", 1),
    ("wrong_digest", 1),
]


def test_a_number_is_issued_with_the_carriers_routing(fake: FakeCarrier) -> None:
    order = new_order()
    issued = ask(link_to(fake.url), lambda to: to.issue(order))
    assert isinstance(issued, Issued)
    assert [issued.number] == fake.issued(order.ref.task_id)
    assert issued.routing is not None and issued.routing.origin.name == "杭州市"
    (line,) = fake.journal(order.ref.task_id)
    assert (line["owner_id"], line["order_sn"]) == (order.ref.owner_id, order.ref.order_sn)


def test_what_the_carrier_refuses_is_passed_on_in_its_own_words(fake: FakeCarrier) -> None:
    order = new_order()
    fake.misbehave("refuse", reason="月结账号已冻结\n", times=1)
    assert ask(link_to(fake.url), lambda to: to.issue(order)) == Declined("月结账号已冻结")
    assert [line["event"] for line in fake.journal(order.ref.task_id)] == ["refused"]
    fake.misbehave("refuse", reason="", times=1)
    declined = ask(link_to(fake.url), lambda to: to.issue(order))
    assert isinstance(declined, Declined) and "no reason" in declined.said("en")


@pytest.mark.parametrize(("fault", "numbers"), UNANSWERED)
def test_an_unanswered_message_is_unknown_sent_once_and_settled_by_looking_up(
    fake: FakeCarrier, fault: str, numbers: int
) -> None:
    order, before = new_order(), fake.received(ISSUE)
    fake.misbehave(fault, message=ISSUE, times=1)
    link = link_to(fake.url, deadline_ms=2000 if fault.startswith("stall") else 5000)
    with pytest.raises(OutcomeUnknownError):
        ask(link, lambda to: to.issue(order))
    assert fake.received(ISSUE) == before + 1
    really = fake.issued(order.ref.task_id)
    assert len(really) == numbers
    found = ask(link_to(fake.url), lambda to: to.look_up(order.ref))
    assert ([found.number] if found else []) == really


def test_control_a_second_message_would_be_a_second_number(fake: FakeCarrier) -> None:
    order = new_order()
    for _ in range(2):
        ask(link_to(fake.url), lambda to: to.issue(order))
    first, second = fake.issued(order.ref.task_id)
    assert first != second
    assert ask(link_to(fake.url), lambda to: to.look_up(order.ref)) == Issued(first)


def test_control_what_was_sent_and_taken_for_unsent_would_be_noticed(
    fake: FakeCarrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_exchange, "_CONNECTING", "")
    order = new_order()
    fake.misbehave("cut_after_commit", times=1)
    with pytest.raises(NotSentError):
        ask(link_to(fake.url), lambda to: to.issue(order))
    assert len(fake.issued(order.ref.task_id)) == 1


def test_control_without_the_digest_a_forged_answer_would_be_believed(
    fake: FakeCarrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signed_form.hmac, "compare_digest", lambda *_: True)
    fake.misbehave("wrong_digest", times=1)
    assert isinstance(ask(link_to(fake.url), lambda to: to.issue(new_order())), Issued)


def test_nothing_is_sent_to_a_port_that_is_closed() -> None:
    link = link_to(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(NotSentError, match="could not be reached: ConnectError"):
        ask(link, lambda to: to.issue(new_order()))


def test_with_another_secret_neither_side_believes_the_other(fake: FakeCarrier) -> None:
    order = new_order()
    with pytest.raises(OutcomeUnknownError, match="wrong digest"):
        ask(link_to(fake.url, secret="another"), lambda to: to.issue(order))
    assert fake.journal(order.ref.task_id) == []


def test_a_number_of_another_format_is_never_issued(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeCarrier(tmp_path, "--numbers-format", "XX####")
    order = new_order()
    try:
        for question in (lambda to: to.issue(order), lambda to: to.look_up(order.ref)):
            with pytest.raises(OutcomeUnknownError, match="not in its format"):
                ask(link_to(fake.url), question)
        assert order.ref.task_id in caplog.text and "does not fit" in caplog.text
        # The controls: it is the format alone that this hangs on.
        found = ask(link_to(fake.url), lambda to: to.look_up(order.ref), number_format=r"XX\d{4}")
        assert found == Issued("XX0001")
        monkeypatch.setattr(remote_carriers, "number_problem", lambda *_: None)
        assert isinstance(ask(link_to(fake.url), lambda to: to.issue(new_order())), Issued)
    finally:
        fake.stop()


def test_an_order_that_the_carrier_does_not_know_is_not_found(fake: FakeCarrier) -> None:
    order = new_order()
    assert ask(link_to(fake.url), lambda to: to.look_up(order.ref)) is None
    ask(link_to(fake.url), lambda to: to.issue(order))
    # Another task for the same order is another waybill.
    other = new_order().ref
    same_order = type(other)(other.task_id, order.ref.owner_id, order.ref.order_sn)
    assert ask(link_to(fake.url), lambda to: to.look_up(same_order)) is None


def test_looking_up_is_repeated_within_its_deadline(fake: FakeCarrier) -> None:
    order = new_order()
    ask(link_to(fake.url), lambda to: to.issue(order))
    before = fake.received(LOOK_UP)
    fake.misbehave("cut_before_commit", message=LOOK_UP, times=1)
    fake.misbehave("garbage", message=LOOK_UP, times=1)
    found = ask(link_to(fake.url), lambda to: to.look_up(order.ref))
    assert found == Issued(fake.issued(order.ref.task_id)[0])
    assert fake.received(LOOK_UP) == before + 3
    fake.misbehave("garbage", message=LOOK_UP)
    with pytest.raises(OutcomeUnknownError):
        ask(link_to(fake.url, deadline_ms=1000), lambda to: to.look_up(order.ref))


def test_a_refused_look_up_does_not_say_that_there_is_nothing(fake: FakeCarrier) -> None:
    fake.misbehave("refuse", message=LOOK_UP, times=1)
    with pytest.raises(OutcomeUnknownError, match="does not say"):
        ask(link_to(fake.url), lambda to: to.look_up(new_order().ref))


def test_a_carrier_may_say_not_found_and_issue_later(fake: FakeCarrier) -> None:
    """Why "I do not know it" counts only once the request is old enough."""
    order = new_order()
    fake.misbehave("delay", delay_ms=6000, message=ISSUE, times=1)
    with pytest.raises(OutcomeUnknownError):
        ask(link_to(fake.url, deadline_ms=2000), lambda to: to.issue(order))
    assert ask(link_to(fake.url), lambda to: to.look_up(order.ref)) is None
    ends_at_s = time.monotonic() + 30
    while not fake.issued(order.ref.task_id):
        assert time.monotonic() < ends_at_s
        time.sleep(0.02)
    found = ask(link_to(fake.url), lambda to: to.look_up(order.ref))
    assert found == Issued(fake.issued(order.ref.task_id)[0])


def test_a_cancelled_number_is_not_found_again(fake: FakeCarrier) -> None:
    order = new_order()
    issued = ask(link_to(fake.url), lambda to: to.issue(order))
    assert isinstance(issued, Issued)
    for _ in range(2):
        cancelled = ask(link_to(fake.url), lambda to: to.cancel(order.ref, issued.number))
        assert cancelled == Cancelled(issued.number)
    events = [line["event"] for line in fake.journal(order.ref.task_id)]
    assert events == ["issued", "cancelled"]
    assert ask(link_to(fake.url), lambda to: to.look_up(order.ref)) is None


def test_a_number_of_another_order_is_not_cancelled(fake: FakeCarrier) -> None:
    mine, other = new_order(), new_order()
    issued = ask(link_to(fake.url), lambda to: to.issue(mine))
    assert isinstance(issued, Issued)
    declined = ask(link_to(fake.url), lambda to: to.cancel(other.ref, issued.number))
    assert isinstance(declined, Declined) and issued.number in declined.reason
    assert fake.issued(mine.ref.task_id) == [issued.number]
    fake.misbehave("cut_before_commit", message=CANCEL, times=1)
    with pytest.raises(OutcomeUnknownError):
        ask(link_to(fake.url), lambda to: to.cancel(mine.ref, issued.number))


def test_the_journal_outlives_a_kill(tmp_path: Path) -> None:
    fake = FakeCarrier(tmp_path, "--fault", '{"fault": "cut_after_commit", "times": 1}')
    first, second = new_order(), new_order()
    try:
        with pytest.raises(OutcomeUnknownError):
            ask(link_to(fake.url), lambda to: to.issue(first))
        before = fake.journal()
        with (tmp_path / "carrier.jsonl").open("ab") as torn:
            torn.write(b'{"event": "iss')
        fake.restart_after_kill()
        assert fake.journal() == before and len(before) == 1
        found = ask(link_to(fake.url), lambda to: to.look_up(first.ref))
        assert found == Issued("YT0000000000001")
        # The fault of the start is in force again.
        fake.misbehave("none")
        issued = ask(link_to(fake.url), lambda to: to.issue(second))
        assert isinstance(issued, Issued) and issued.number == "YT0000000000002"
    finally:
        assert fake.stop() == 0


def test_neither_people_nor_the_secret_get_into_the_log_or_the_errors(
    fake: FakeCarrier, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    texts = []
    for fault, _ in UNANSWERED:
        fake.misbehave(fault, times=1)
        with pytest.raises(ConnectorError) as raised:
            ask(link_to(fake.url, deadline_ms=300), lambda to: to.issue(new_order()))
        texts.append(repr(raised.value))
    texts += [caplog.text, repr(link_to(fake.url)), *map(str, fake.journal())]
    written = "\n".join(texts)
    # The search can find what is there: the address is no secret.
    assert fake.url in written and "issue at carrier YTO" in caplog.text
    for canary in (SECRET, SENDER.name, RECIPIENT.name, RECIPIENT.mobile, "金丝雀收件路二号"):
        assert canary not in written
        assert canary.encode("unicode_escape").decode() not in written


def test_the_environment_does_not_send_messages_elsewhere(
    fake: FakeCarrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    issued = ask(link_to(fake.url), lambda to: to.issue(new_order()), number_format=FORMAT)
    assert isinstance(issued, Issued)
