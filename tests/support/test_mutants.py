"""What mutants a module has, and of what it has none. `make mutation` counts them."""

from pathlib import Path

import pytest

from tests.support.mutants import mutants_of
from tests.support.mutation import Record, Trial

pytestmark = pytest.mark.sqlite

MUTANTS = {
    "if a <= b:\n    f()": ["if a < b:", "if True:", "if False:", "pass"],
    "if a or b is c:\n    pass": [
        "if a and b is c:",
        "if True:",
        "if False:",
        "if a or b is not c:",
    ],
    "x = a + 1": ["x = a - 1", "x = a + 2"],
    "x = not a": ["x = a"],
    "x = b'a' if a == b else None": [
        "x = b'a' if True else None",
        "x = b'a' if False else None",
        "x = b'aX' if a == b else None",
    ],
    "n += 1": ["pass", "n -= 1", "n += 2"],
    "a.b = min(c)": ["pass", "a.b = max(c)"],
    "del a[0]": ["pass", "del a[1]"],
    "while True:\n    pass": ["while False:", "while False:"],
    "def f(a: int = 1) -> int:\n    return g(a)": ["return None"],
    "QUERY = 'SELECT a'": ["QUERY = 'SELECT aX'"],
    "raise ValueError('a text')": ["pass"],
    "class A(B, gc=False):\n    '''A text.'''": [],
    "import a": [],
    "assert a < 1": [],
}


@pytest.mark.parametrize(("source", "mutants"), MUTANTS.items())
def test_every_mutant_is_the_source_with_one_fault(source: str, mutants: list[str]) -> None:
    found = list(mutants_of(source))
    assert [each.now for each in found] == mutants
    for each in found:
        assert each.now in each.source and each.source != source
        compile(each.source, "mutant", "exec")


def test_a_stopped_run_goes_on_with_the_mutants_that_were_not_killed(tmp_path: Path) -> None:
    killed, other = (Trial("a.py", mutant) for mutant in mutants_of("x = a + 1"))
    path = tmp_path / "killed"
    Record(path).add(killed)
    assert killed in Record(path) and other not in Record(path)


def test_mutants_of_a_changed_module_are_tried_again(tmp_path: Path) -> None:
    (before,) = mutants_of("x = a + b")
    (after,) = mutants_of("x = a + b\ny = b")
    path = tmp_path / "killed"
    Record(path).add(Trial("a.py", before))
    assert Trial("a.py", after) not in Record(path)
