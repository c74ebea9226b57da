"""The whole demo world, 583,000 rows, moved to PostgreSQL: the tour has the same answers there."""

from pathlib import Path

import pytest

from tests.docs.moved_tour import make_demo, tours_of

pytestmark = [pytest.mark.torture, pytest.mark.postgresql]


def test_the_tour_is_the_same_after_a_move(tmp_path: Path) -> None:
    _, before, after = tours_of(make_demo(tmp_path), tmp_path)
    assert before == after
    assert "".join(before).count('"code":0,"msg":"Success"') > 10
