"""Our cookies are found among any others, and outsiders' cookies cost next to nothing."""

from collections.abc import Callable
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request, cookie_parser

from tollway.web.cookies import cookie_of

pytestmark = pytest.mark.sqlite
OURS = "tollway_owner"
PIECES = st.sampled_from(
    [OURS, "tollway_owner_device", "__Host-", "=", "==", ";", "; ", "v.abc", "a ", "é"]
)
HOSTILE = {
    "semicolons": ";" * 15_000,
    "names": "; ".join(f"a{number}=b" for number in range(1700)),
    "quotes": 'a="' + "\\012" * 3700 + '"',
    "backslashes": 'a="' + "\\" * 14_000 + '"',
    "nearly ours": f"x{OURS}=" * 1000,
    "spaces before ours": f"x {' ' * 200}{OURS}=" * 70,
}


def asking(*cookies: str) -> Request:
    headers = [(b"cookie", each.encode("latin-1")) for each in cookies]
    return Request({"type": "http", "headers": headers})


@given(st.lists(st.lists(PIECES, max_size=12).map("".join), max_size=2))
def test_a_cookie_is_the_one_that_a_browser_means(cookies: list[str]) -> None:
    expected = ""
    for each in cookies:
        expected = cookie_parser(each).get(OURS, expected)
    assert cookie_of(asking(*cookies), OURS) == expected


def took_s(read: Callable[[Request], object], header: str) -> float:
    """The shortest of some times of this thread."""
    times = []
    for _ in range(5):
        request, began_s = asking(header), thread_time()
        read(request)
        times.append(thread_time() - began_s)
    return min(times)


@pytest.mark.parametrize("name", HOSTILE)
def test_others_cost_less_than_half_of_what_reading_all_of_them_would(name: str) -> None:
    slow_s = max(took_s(lambda request: request.cookies, each) for each in HOSTILE.values())
    assert took_s(lambda request: cookie_of(request, OURS), HOSTILE[name]) < slow_s / 2
    assert cookie_of(asking(HOSTILE[name]), OURS) == ""
