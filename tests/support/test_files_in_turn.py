"""A file whose tests are collected in turn: they are all of its tests, each once."""

import pytest

from tests.support.files_in_turn import FileInTurn, TestsOfFile


def test_what_stands_for_a_file_has_all_its_tests(request: pytest.FixtureRequest) -> None:
    module = request.node.getparent(pytest.Module)
    file = FileInTurn.from_parent(module.parent, path=module.path)
    parts = [each for each in file.collect() if isinstance(each, TestsOfFile)]
    collected = [test.nodeid for part in parts for test in part.collected()]
    whole = pytest.Module.from_parent(module.parent, path=module.path)
    assert sorted(collected) == sorted(each.nodeid for each in request.session.genitems(whole))
    assert request.node.nodeid in collected
