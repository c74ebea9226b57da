"""The tour, on a small demo world and on the same world after `tollway move`: the same answers."""

import shutil
from pathlib import Path

import pytest

from tests.docs.moved_tour import make_demo, tours_of
from tests.docs.small_demo import SIZES


@pytest.mark.skipif(
    not (shutil.which("bash") and shutil.which("curl")), reason="the tour needs bash and curl"
)
def test_the_tour_is_the_same_after_a_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, size in SIZES:
        monkeypatch.setattr(module, "WORLD", size)
    before, after = tours_of(make_demo(tmp_path), tmp_path)
    assert before == after
    # Or nothing would have been compared.
    assert "".join(before).count('"code":0,"msg":"Success"') > 10
