"""Any JSON value in any field of any record, by file and by push, on both engines: the outcome is
the same, and the records beside it are stored."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.any_records import (
    POISON,
    SAMPLES,
    Outcome,
    between_good_ones,
    by_file,
    by_push,
    odd_fields,
)
from tests.support.engines import ENGINES, use
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.orders import sealer_of
from tests.support.pushes import EVERYONE, SOURCE
from tests.support.stores import Store
from tollway.intake import record_check
from tollway.intake.sources import add_source
from tollway.operations.catalogue import RECORD_KINDS

pytestmark = pytest.mark.postgresql

# The field, what was wrong, and what would be right.
OURS = re.compile(r"[a-z_]+(\[\d+\])?(\.[a-z_]+)?: it [^;$`]+; send [^;$`]+\.")

# A push with many more wrong records would be refused as a whole.
FIELDS_AT_ONCE = 8


class Side(NamedTuple):
    """One engine: its database, a gateway on it, and the secret of a source."""

    store: Store
    gateway: Gateway
    secret: str


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[list[Side]]:
    made = []
    for each in ENGINES:
        use(each)
        store = Store(tmp_path_factory.mktemp(each) / "tollway.db")
        source = store.do(
            lambda database, at=store: add_source(
                database, sealer_of(at), SOURCE, EVERYONE, RUNTIME
            )
        )
        made.append(Side(store, Gateway(store), source.secret))
    yield made
    for side in made:
        log = side.gateway.log()
        assert side.gateway.stop() == 0
        assert "Traceback" not in log


def outcomes(sides: list[Side], folder: Path, kind: str, records: list[bytes]) -> list[Outcome]:
    """What comes of these records on each engine and each way, in each form.

    An engine meets both ways and both forms, and so does each way: no more, for neither of the
    two knows the form.
    """
    lines, array = b"\n".join(records), b"[" + b",\n".join(records) + b"]"
    in_file, pushed = (lines, "jsonl"), array
    found = []
    for store, gateway, secret in sides:
        content, ending = in_file
        found.append(by_file(store, kind, folder / f"records.{ending}", content))
        if RECORD_KINDS[kind].is_pushed:
            found.append(by_push(gateway, secret, kind, pushed))
        in_file, pushed = (array, "json"), lines
    return found


def assert_alike(found: list[Outcome], records: list[bytes]) -> None:
    first = found[0]
    for other in found:
        assert other.rows == first.rows
        # A pushed record that is wrong is kept once, however often it comes.
        assert set(other.reasons) == set(first.reasons)
    assert all(OURS.fullmatch(reason) for reason in first.reasons), first.reasons
    good = [f"good-{number}" for number in range(len(records) // 2)]
    assert {*good, "good-last"} <= first.ids()


@pytest.mark.parametrize("kind", SAMPLES)
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_value_in_any_field_is_stored_or_rejected_alike(
    sides: list[Side], tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    records = between_good_ones(kind, data.draw(odd_fields(kind)))
    folder = tmp_path_factory.mktemp("any")
    assert_alike(outcomes(sides, folder, kind, records), records)


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_poison_in_every_field_is_stored_or_rejected_alike(
    sides: list[Side], tmp_path: Path, kind: str
) -> None:
    places = [
        (which, field) for which, sample in enumerate(SAMPLES[kind].records) for field in sample
    ]
    while places:
        some, places = places[:FIELDS_AT_ONCE], places[FIELDS_AT_ONCE:]
        odd = ((which, field, raw) for which, field in some for raw in POISON)
        records = between_good_ones(kind, odd)
        assert_alike(outcomes(sides, tmp_path, kind, records), records)


@pytest.mark.parametrize("kind", SAMPLES)
def test_an_id_of_several_lines_is_rejected(sides: list[Side], tmp_path: Path, kind: str) -> None:
    field = SAMPLES[kind].id_field
    within = ("\n", "\r\n", "\t", "\x1b", "\x7f", "\x85", "\u2028")
    odd = [(0, field, json.dumps(f"odd{each}1")) for each in within]
    # White space around an id is no part of it, and these are one character.
    odd += [(0, field, json.dumps(each)) for each in ("odd-2\n", "odd-👩‍🌾")]
    records = between_good_ones(kind, odd)
    found = outcomes(sides, tmp_path, kind, records)
    assert_alike(found, records)
    problem = "it contains a line break or a control character"
    for each in found:
        assert set(each.reasons) == {f"{field}: {problem}; send a text of 1 to 64 characters."}
        assert {one for one in each.ids() if one.startswith("odd")} == {"odd-2", "odd-👩‍🌾"}


def test_a_phone_may_have_several_lines(sides: list[Side], tmp_path: Path) -> None:
    records = between_good_ones("orders", [(0, "receiver_phone", '"13800001111\\n13900001111"')])
    for each in outcomes(sides, tmp_path, "orders", records):
        assert each.reasons == [] and "odd-0" in each.ids()


@pytest.mark.parametrize(
    ("kind", "field", "raw"),
    [("orders", "goods_spec", '"a\\u0000b"'), ("product-figures", "picture_url", '"\\ud800"')],
)
def test_a_text_that_is_not_checked_would_be_noticed(
    sides: list[Side],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    field: str,
    raw: str,
) -> None:
    monkeypatch.setattr(record_check, "text_problem", lambda _: "")
    records = between_good_ones(kind, [(0, field, raw)])
    content = b"\n".join(records)
    with pytest.raises((AssertionError, ValueError, asyncpg.PostgresError)):
        files = [by_file(side.store, kind, tmp_path / "r.jsonl", content) for side in sides]
        assert_alike(files, records)


def test_an_amount_that_is_not_checked_would_be_noticed(
    sides: list[Side], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_check, "is_amount", lambda *_: True)
    records = between_good_ones("orders", [(0, "pay_amount", '"9E+999999"')])
    with pytest.raises((ArithmeticError, AssertionError, asyncpg.PostgresError)):
        outcome = by_file(sides[1].store, "orders", tmp_path / "r.jsonl", b"\n".join(records))
        assert_alike([outcome], records)
