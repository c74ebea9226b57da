"""Which Python `make` takes: never a slower one than it must."""

import sys
import sysconfig

import pytest

from requirements import choose_python
from requirements.choose_python import is_optimised, is_usable

pytestmark = pytest.mark.sqlite


@pytest.mark.parametrize(
    ("options", "prefix", "expected"),
    [
        ("'--enable-optimizations' '--with-lto'", "/opt/python", True),
        ("'--enable-shared'", "/home/wang/.pyenv", False),
        # Distributions have a way of their own.
        ("'--enable-shared'", "/usr", True),
        (None, "/opt/python", False),
    ],
)
def test_how_it_was_compiled_decides(
    options: str | None, prefix: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", lambda _: options)
    monkeypatch.setattr(sys, "base_prefix", prefix)
    assert is_optimised() is expected


def test_one_that_is_missing_or_too_old_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_usable(sys.executable)
    assert not is_usable("/nowhere/python3")
    monkeypatch.setattr(choose_python, "USABLE", choose_python.USABLE.replace("(3, 11)", "(9, 0)"))
    assert not is_usable(sys.executable)


@pytest.mark.parametrize("version", [(3, 10, 1), (3, 11, 0)])
def test_one_that_is_too_old_gives_way_also_if_it_is_quick(
    version: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose_python, "is_optimised", lambda: True)
    monkeypatch.setattr(choose_python, "SYSTEM", sys.executable)
    monkeypatch.setattr(sys, "version_info", version)
    assert choose_python.choose() == (sys.executable if version < (3, 11) else "python3")
