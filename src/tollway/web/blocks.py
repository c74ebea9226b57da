"""What pages are made of: figures, tables, forms, facts and notices, declared as data.

A page lists its blocks; `templates/page.html` renders them, so a list or a form needs no template
of its own. Texts are already in the reader's language; the template escapes every value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict


class Link(NamedTuple):
    """A text that leads somewhere."""

    text: str
    href: str


class Tab(NamedTuple):
    """One of several pages about the same thing, which lead to each other."""

    text: str
    href: str
    is_current: bool


class MoreOfPage(TypedDict, total=False):
    """What a page may have besides its title and its blocks."""

    status: int
    lead: str
    crumbs: Sequence[Link]
    tabs: Sequence[Tab]
    actions: Sequence[Link]
    live_s: int
    is_printable: bool


NO_MORE: MoreOfPage = {
    "lead": "",
    "crumbs": (),
    "tabs": (),
    "actions": (),
    "live_s": 0,
    "is_printable": False,
}


class Cell(NamedTuple):
    """One value of a table. `kind` is number, mono or time; with a tone it looks like a state. `of`
    is read out after an act such as Revoke, whose text is the same in every row."""

    text: str
    kind: str = ""
    href: str = ""
    title: str = ""
    tone: str = ""
    share: int | None = None
    of: str = ""


class Empty(NamedTuple):
    """What an empty list says: why, the act that fills it, and the command that does the same."""

    text: str
    action: Link | None = None
    command: str = ""


_NEVER_EMPTY = Empty("")


@dataclass(frozen=True)
class Field:
    """One field of a form or filter. `kind` is an input type, select, textarea, or checks: one
    checkbox per choice, each with its own name (`box_name`)."""

    name: str
    label: str
    kind: str = "text"
    value: str = ""
    choices: Sequence[tuple[str, str]] = ()
    help: str = ""
    is_required: bool = False
    length_max: int = 200
    placeholder: str = ""
    autocomplete: str = "off"
    has_focus: bool = False
    problem: str = ""
    # The bounds of a number.
    least: int | None = None
    most: int | None = None

    def box_name(self, choice: str) -> str:
        return f"{self.name}_{choice}"

    def ticked(self, form: Mapping[str, str]) -> list[str]:
        """The choices that are ticked in a submitted form."""
        return [choice for choice, _ in self.choices if form.get(self.box_name(choice)) == "yes"]


class Block:
    """A part of a page; `templates/blocks.html` draws each kind."""

    @property
    def kind(self) -> str:
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Form(Block):
    """A form that is sent by POST, or by GET if it only chooses; `tone` is act or warn. `back`
    is a link, and `back_with` a button that keeps what was typed. The answer to a download is a
    file, and its page stays open."""

    action: str
    button: str
    fields: Sequence[Field] = ()
    hidden: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    note: str = ""
    problem: str = ""
    tone: str = "act"
    is_line: bool = False
    is_folded: bool = False
    method: str = "post"
    takes_file: bool = False
    back: Link | None = None
    back_with: Link | None = None
    is_download: bool = False


def folded_act(action: str, button: str, hidden: Mapping[str, str], note: str) -> Form:
    """An act that takes something away, folded so that it is not started by accident."""
    return Form(action, button, hidden=hidden, title=button, note=note, tone="warn", is_folded=True)


@dataclass(frozen=True)
class Filters:
    """The fields that filter the rows of a table; sent by GET, so that the address has them."""

    action: str
    fields: Sequence[Field]
    hidden: Mapping[str, str] = field(default_factory=dict)

    @property
    def chosen(self) -> int:
        """How many filters are set."""
        return sum(bool(each.value) for each in self.fields)


@dataclass(frozen=True)
class Table(Block):
    """Rows. On a phone each row becomes a card, a row of a log becomes a few lines without labels,
    and a ranking stays a table."""

    titles: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    empty: Empty = _NEVER_EMPTY
    title: str = ""
    filters: Filters | None = None
    links: Sequence[Link] = ()
    older: str = ""
    newest: str = ""
    note: str = ""
    is_ranked: bool = False
    is_log: bool = False
    is_by_name: bool = False

    @property
    def numbers(self) -> list[bool]:
        """Whether each column has numbers: its title is then aligned like them."""
        return [
            any("number" in cell.kind for cell in column) for column in zip(*self.rows, strict=True)
        ]


class Figure(NamedTuple):
    """One number with its label; `spark` is an SVG from `charts`."""

    label: str
    value: str
    note: str = ""
    tone: str = ""
    href: str = ""
    spark: object = ""

    @property
    def length(self) -> str:
        """How long the longest word is: words are never broken."""
        longest = max(map(len, self.value.split()), default=0)
        return "longest" if longest > 14 else "long" if longest > 9 else ""


@dataclass(frozen=True)
class Figures(Block):
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Facts(Block):
    """Names and values; a value is a cell."""

    facts: Sequence[tuple[str, Cell]]
    title: str = ""
    links: Sequence[Link] = ()


@dataclass(frozen=True)
class Notice(Block):
    """A text with a link; the link is a button where there is nothing else to do."""

    text: str
    tone: str = ""
    link: Link | None = None
    has_button: bool = False


@dataclass(frozen=True)
class Secret(Block):
    """A text to copy that is shown only once."""

    title: str
    text: str
    note: str


@dataclass(frozen=True)
class Code(Block):
    """Texts to copy, each with a name; where there are many, each is folded under its name."""

    title: str
    samples: Sequence[tuple[str, str]]
    is_folded: bool = False


@dataclass(frozen=True)
class Picture(Block):
    """A picture that this gateway serves."""

    title: str
    href: str
    text: str


@dataclass(frozen=True)
class Drawing(Block):
    """An SVG made for this page, with a text below it."""

    title: str
    drawing: object
    text: str


@dataclass(frozen=True)
class Chart(Block):
    """A drawing by `charts`, and the same values as a table."""

    title: str
    drawing: object
    table: Table
    legend: Sequence[tuple[str, str]] = ()


class Stage(NamedTuple):
    """One stage of a call: passed, stopped or unused, what it found, and how long it took, with its
    part of the whole time as two percentages."""

    name: str
    state: str
    found: str = ""
    taken: str = ""
    begin: float = 0
    length: float = 0


@dataclass(frozen=True)
class Stages(Block):
    title: str
    stages: Sequence[Stage]
    note: str = ""


@dataclass(frozen=True)
class Columns(Block):
    """Blocks side by side, where there is space."""

    blocks: Sequence[Block]
