"""What tests start is loaded and compiled before: otherwise each fork would do it again."""

import pytest

from tests.support import forks


@pytest.mark.sqlite
def test_a_fork_finds_every_query_compiled() -> None:
    done = forks.run("tests.support.uncompiled")
    assert not done.stderr
    not_compiled, queries = map(int, done.stdout.split())
    assert not_compiled == 0
    assert queries > 300
