"""The sentences of the pages in each language, and how numbers and times are written.

A sentence is written in English where it is used, as `_("...")` in a template or `say("...")` in
code. `words/` has the Chinese sentences, by area; a test fails on a missing or unused one.
"""

import re
import tomllib
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import NamedTuple
from zoneinfo import ZoneInfo

from starlette.datastructures import QueryParams
from starlette.requests import Request

from tollway.contract.language import Phrase, preferred_language
from tollway.web.cookies import cookie_of

LANGUAGES = {"en": "English", "zh": "中文"}
# The files of the catalogue in each language.
WORD_PARTS = (
    *("", "_reference", "_caller", "_operator", "_trail", "_second_factor", "_settings"),
    *("_rejected", "_rejected_problems", "_rejected_expected", "_audit", "_reasons"),
)
THEMES = ("auto", "light", "dark")
LANGUAGE_COOKIE = "tollway_language"
THEME_COOKIE = "tollway_theme"
# The field of a form, and of a link to a question, that names the page it is on.
CAME_FROM = "came_from"
# A day before the end of the year 9999.
_LAST_S = 253_402_128_000
_HTML_TAGS = {"en": "en", "zh": "zh-CN"}


@cache
def catalogue(language: str) -> dict[str, str]:
    """Every sentence in a language, by its English text; empty for English itself."""
    if language == "en":
        return {}
    words: dict[str, str] = {}
    for part in WORD_PARTS:
        words |= words_of(language, part)
    return words


def words_of(language: str, part: str) -> dict[str, str]:
    """The sentences of one file; no two files share a sentence."""
    path = files("tollway.web").joinpath(f"words/{language}{part}.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


class View(NamedTuple):
    """How a reader sees pages: the language, the theme, the address to come back to, the page that
    a form or a question came from, and whether this is the answer to a form, which a GET cannot
    repeat."""

    language: str
    theme: str
    address: str
    came_from: str = ""
    is_answer: bool = False

    @property
    def html_tag(self) -> str:
        return _HTML_TAGS[self.language]

    @property
    def page(self) -> str:
        """The address of the page that a form or a link is on, without the report of an act."""
        path, _, query = (self.came_from or self.address).partition("?")
        kept = [each for each in query.split("&") if each and not each.startswith("said=")]
        page = f"{path}?{'&'.join(kept)}" if kept else path
        # A longer one is not taken back, and each row of a list would repeat it.
        return page if is_own_address(page) else path

    def from_page(self, address: str) -> "View":
        """The view after a form on the page with this address, if that page is ours."""
        return self._replace(came_from=address) if is_own_address(address) else self

    def at(self, address: str = "") -> "View":
        """The view of a refused form: a GET can repeat the page at this address, or at the form's
        own, also in another language."""
        return self._replace(address=address or self.address, is_answer=False)

    def say(self, sentence: str | Phrase, **values: object) -> str:
        """A sentence in the reader's language, with its values filled in. Installed packages bring
        their texts in both languages, as a `Phrase`."""
        if isinstance(sentence, Phrase):
            return sentence.said(self.language)
        text = catalogue(self.language).get(sentence, sentence)
        return text.format_map(values) if values else text


def sentence(text: str) -> str:
    """Marks a sentence that is used elsewhere, for the test of the catalogue."""
    return text


def sentences(*texts: str) -> tuple[str, ...]:
    """Marks several sentences."""
    return texts


PLAIN_VIEW = View("en", "auto", "/")
Say = Callable[..., str]


def titles(say: Say, *texts: str) -> list[str]:
    """The titles of columns in the reader's language."""
    return [*map(say, texts)]


def listed(say: Say, names: Iterable[str]) -> str:
    """Names as a list; Chinese has its own comma for lists."""
    text = ""
    for name in names:
        text = say("{first}, {second}", first=text, second=name) if text else name
    return text


def language_of(request: Request) -> str:
    """The language that the reader chose, or else the one that the browser asks for."""
    chosen = cookie_of(request, LANGUAGE_COOKIE)
    if chosen in LANGUAGES:
        return chosen
    return preferred_language(request.headers.get("accept-language", ""))


def view_of(request: Request) -> View:
    """The language and theme that the reader wants, and the requested address."""
    language = language_of(request)
    theme = cookie_of(request, THEME_COOKIE)
    scope = request.scope
    address, query = scope.get("path", "/"), scope.get("query_string", b"").decode("latin-1")
    if query:
        address += f"?{query}"
    theme = theme if theme in THEMES else "auto"
    view = View(language, theme, address, is_answer=request.method == "POST")
    return view.from_page(QueryParams(query).get(CAME_FROM, ""))


def is_own_address(address: str) -> bool:
    """Whether a redirect to this address stays on our pages: `//` would lead to another host."""
    return (
        address.startswith("/")
        and not address.startswith(("//", "/\\"))
        and address.isprintable()
        and len(address) <= 2000
    )


def plain_number(text: str, digits_max: int = 18) -> int | None:
    """The number that a text of digits stands for; None for any other text."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= digits_max
    return int(text) if is_number else None


def written_list(text: str) -> list[str]:
    """A typed list, separated by spaces or commas, also Chinese ones."""
    return [each for each in re.split(r"[\s,，、]+", text) if each]


def grouped(number: float) -> str:
    return f"{number:,}"


def one_line(text: str) -> str:
    """A typed text without line breaks, for a question, which would show them."""
    return " ".join(text.split())


def short_id(text: str) -> str:
    """An id as lists show it: enough to distinguish it from its neighbours."""
    return text if len(text) <= 16 else f"{text[:8]}…{text[-6:]}"


def amount(say: Say, unit: str, number: int) -> str:
    """A number of credits or calls."""
    if unit == "credits":
        return counted(say, number, sentence("{count} credit"), sentence("{count} credits"))
    return counted(say, number, sentence("{count} call"), sentence("{count} calls"))


def counted(say: Say, number: int, one: str, many: str, **values: object) -> str:
    """A sentence with a number of things in it."""
    return say(one if abs(number) == 1 else many, count=grouped(number), **values)


def named_reason(say: Say, reason: str) -> str:
    """A reason as answers and docs name it; in Chinese also what it means."""
    meaning = say(reason)
    return reason if meaning == reason else f"{meaning} {reason}"


def exact_time(at_s: float, zone: ZoneInfo) -> str:
    return _moment(at_s, zone).strftime("%Y-%m-%d %H:%M:%S")


def _moment(at_s: float, zone: ZoneInfo) -> datetime:
    """A time as a datetime, which ends with the year 9999."""
    return datetime.fromtimestamp(min(at_s, _LAST_S), zone)


# Up to which span a time is given in which unit.
_SPANS = (
    (3600, 60, sentence("{count} min ago"), sentence("in {count} min")),
    (2 * 86_400, 3600, sentence("{count} h ago"), sentence("in {count} h")),
    (7 * 86_400, 86_400, sentence("{count} days ago"), sentence("in {count} days")),
)


def relative_time(at_s: float, now_s: float, zone: ZoneInfo, say: Say) -> str:
    """How long ago or how soon; beyond a week the day."""
    past_s = now_s - at_s
    span_s = abs(past_s)
    if span_s < 60:
        if past_s < 0:
            return say("in a moment")
        return say("{count} s ago", count=int(past_s)) if past_s >= 1 else say("just now")
    for limit_s, unit_s, past, ahead in _SPANS:
        if span_s < limit_s:
            return say(past if past_s > 0 else ahead, count=round(span_s / unit_s) or 1)
    return _moment(at_s, zone).strftime("%Y-%m-%d")


def log_time(at_s: float, now_s: float, zone: ZoneInfo, say: Say) -> str:
    """When a row of a log was made: the newest as above, older ones by the clock, or a page of them
    would say no more than the same few hours or day."""
    past_s = now_s - at_s
    if past_s < 3600:
        return relative_time(at_s, now_s, zone, say)
    is_of_this_year = past_s < 300 * 86_400
    return _moment(at_s, zone).strftime("%m-%d %H:%M" if is_of_this_year else "%Y-%m-%d")
