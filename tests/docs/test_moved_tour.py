"""The tour, on a small demo world and on the same world after `tollway move`: it prints what
the page shows, and has the same answers."""

import shutil
from pathlib import Path

import pytest

from tests.docs.likeness import assert_shown
from tests.docs.moved_tour import tours_of
from tests.docs.pages import TOUR, examples_of
from tests.docs.workplace import make_demo_files
from tollway.demo.world_file import saved_world


@pytest.mark.skipif(
    not (shutil.which("bash") and shutil.which("curl")), reason="the tour needs bash and curl"
)
def test_the_tour_prints_what_the_page_shows_and_the_same_after_a_move(tmp_path: Path) -> None:
    make_demo_files(tmp_path)
    world = saved_world(str(tmp_path / "data" / "demo.db"))
    assert world is not None
    printed, before, after = tours_of(world, tmp_path)
    assert_shown(examples_of(TOUR), printed)
    assert before == after
    # Or nothing would have been compared.
    assert "".join(before).count('"code":0,"msg":"Success"') > 10
