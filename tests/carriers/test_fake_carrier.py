"""The fake carrier itself: it is strict, and says what is wrong with a message."""

from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import forks
from tests.support.fake_carrier import ISSUE, FakeCarrier
from tollway.carriers.connectors.signed_form import digest
from tollway.demo.fakes.carrier.signed_form import digest_of


def test_both_sides_compute_the_digest_that_the_form_prescribes() -> None:
    # base64 of the raw MD5 of "ab".
    assert digest("a", "b") == digest_of("a", "b") == "GH70Q2Ei0cwvQNwrkvDroA=="


@given(st.text(), st.text())
def test_both_sides_compute_the_same_digest_of_any_text(content: str, secret: str) -> None:
    assert digest(content, secret) == digest_of(content, secret)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ({"fault": "nonsense"}, "one of delay, stall_before_commit"),
        ({"fault": "delay", "speed": 1}, "with the fields fault, message"),
        ({"fault": "delay", "times": "1"}, "times cannot be '1'"),
        ({"fault": "delay", "delay_ms": -1}, "delay_ms cannot be -1"),
        ([], "JSON object"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(fake: FakeCarrier, fault: object, sentence: str) -> None:
    answer = httpx.post(f"{fake.url}/control", json=fault, trust_env=False)
    assert answer.status_code == 400 and sentence in answer.text
    assert httpx.get(f"{fake.url}/control", trust_env=False).json()["faults"] == []


def test_a_message_without_a_right_digest_changes_nothing(fake: FakeCarrier) -> None:
    before = fake.journal()
    form = {"msg_type": ISSUE, "logistics_interface": "{}", "data_digest": "x"}
    answer = httpx.post(fake.url, data=form, trust_env=False)
    assert "S02" in answer.text
    assert fake.journal() == before


def test_it_does_not_start_without_its_secret(tmp_path: Path) -> None:
    ended = forks.run(
        *("tollway.demo.fakes.carrier", "--journal", "j", "--secret-file", "s"), cwd=tmp_path
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "No such file" in ended.stderr and "Traceback" not in ended.stderr
