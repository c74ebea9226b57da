"""Our own cookies of a request, found by name.

A browser also sends those of everything else at the same host, and a stranger sends any number: to
split and unquote 15 kB of them takes longer than a page.
"""

from starlette.requests import Request


def cookie_of(request: Request, name: str) -> str:
    """The value of a cookie, of several the last; empty if there is none. Those that we set need no
    quotes."""
    for header in reversed(request.headers.getlist("cookie")):
        value = _last_value(header, f"{name}=")
        if value is not None:
            return value
    return ""


def _last_value(header: str, beginning: str) -> str | None:
    at = header.rfind(beginning)
    while at >= 0:
        # As all browsers separate them.
        if at == 0 or header[at - 1] == ";" or header[at - 2 : at] == "; ":
            return header[at + len(beginning) :].partition(";")[0].strip()
        at = header.rfind(beginning, 0, at)
    return None
