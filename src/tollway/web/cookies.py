"""Our own cookies of a request, found by name.

A browser also sends the cookies of everything else on the same host, and an attacker any number:
splitting and unquoting 15 kB of cookies takes longer than rendering a page.
"""

from starlette.requests import Request


def cookie_of(request: Request, name: str) -> str:
    """The value of a cookie, the last one if there are several, or empty. It is not unquoted: our
    own cookies need no quotes."""
    for header in reversed(request.headers.getlist("cookie")):
        value = _last_value(header, f"{name}=")
        if value is not None:
            return value
    return ""


def _last_value(header: str, beginning: str) -> str | None:
    at = header.rfind(beginning)
    while at >= 0:
        # The separators that browsers use.
        if at == 0 or header[at - 1] == ";" or header[at - 2 : at] == "; ":
            return header[at + len(beginning) :].partition(";")[0].strip()
        at = header.rfind(beginning, 0, at)
    return None
