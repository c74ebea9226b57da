"""What pages are made of: figures, tables, forms, facts and notices, declared as data.

A page names its blocks; `templates/page.html` draws them. So a list or a form needs no template of
its own. Texts are in the reader's language already, and every value is escaped when it is drawn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple


class Link(NamedTuple):
    """A text that leads somewhere."""

    text: str
    href: str


class Cell(NamedTuple):
    """One value of a table. `kind` is number, mono or time; a tone draws it as a state."""

    text: str
    kind: str = ""
    href: str = ""
    title: str = ""
    tone: str = ""
    share: int | None = None


class Empty(NamedTuple):
    """What an empty list says: why, the one act that fills it, and the equal command."""

    text: str
    action: Link | None = None
    command: str = ""


_NEVER_EMPTY = Empty("")


@dataclass(frozen=True)
class Field:
    """One field of a form or filter. `kind` is a type of input, or select or textarea; or checks: a
    box for each choice, which is sent under a name of its own (`box_name`)."""

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
    # Of a number.
    least: int | None = None
    most: int | None = None

    def box_name(self, choice: str) -> str:
        return f"{self.name}_{choice}"

    def ticked(self, form: Mapping[str, str]) -> list[str]:
        """Of the choices of a form that was sent."""
        return [choice for choice, _ in self.choices if form.get(self.box_name(choice)) == "yes"]


@dataclass(frozen=True)
class Form:
    """A form that is sent by POST, or by GET if it only chooses; `tone` is act or warn. Back
    leads a link, or `back_with` a button that takes what was typed along."""

    kind: ClassVar[str] = "form"
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


@dataclass(frozen=True)
class Filters:
    """The fields that choose the rows of a table; sent by GET, so that an address says them."""

    action: str
    fields: Sequence[Field]
    hidden: Mapping[str, str] = field(default_factory=dict)

    @property
    def chosen(self) -> int:
        """How many of them leave rows out."""
        return sum(bool(each.value) for each in self.fields)


@dataclass(frozen=True)
class Table:
    """Rows; on a phone each becomes a card, one of a log a few lines without labels, and those of a
    ranking stay beside each other."""

    kind: ClassVar[str] = "table"
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
        """Of each column, whether it has numbers: its title is then aligned as they are."""
        return [
            any("number" in cell.kind for cell in column) for column in zip(*self.rows, strict=True)
        ]


class Figure(NamedTuple):
    """One number with its label; `spark` is an SVG that was drawn by `charts`."""

    label: str
    value: str
    note: str = ""
    tone: str = ""
    href: str = ""
    spark: object = ""

    @property
    def length(self) -> str:
        """How long its longest word is, which may not be broken."""
        longest = max(map(len, self.value.split()), default=0)
        return "longest" if longest > 14 else "long" if longest > 9 else ""


@dataclass(frozen=True)
class Figures:
    kind: ClassVar[str] = "figures"
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Facts:
    """Names and values; a value is a cell."""

    kind: ClassVar[str] = "facts"
    facts: Sequence[tuple[str, Cell]]
    title: str = ""
    links: Sequence[Link] = ()


@dataclass(frozen=True)
class Notice:
    """A text with a link; as a button, where there is nothing else to do."""

    kind: ClassVar[str] = "notice"
    text: str
    tone: str = ""
    link: Link | None = None
    has_button: bool = False


@dataclass(frozen=True)
class Secret:
    """A text that is shown this once, to be copied."""

    kind: ClassVar[str] = "secret"
    title: str
    text: str
    note: str


@dataclass(frozen=True)
class Code:
    """Texts to copy: each with a name, and folded behind it where there are many."""

    kind: ClassVar[str] = "code"
    title: str
    samples: Sequence[tuple[str, str]]
    is_folded: bool = False


@dataclass(frozen=True)
class Picture:
    """A picture of ours."""

    kind: ClassVar[str] = "picture"
    title: str
    href: str
    text: str


@dataclass(frozen=True)
class Drawing:
    """An SVG that was made for this page, with a text below it."""

    kind: ClassVar[str] = "drawing"
    title: str
    drawing: object
    text: str


@dataclass(frozen=True)
class Chart:
    """A drawing by `charts`, and the same values as a table."""

    kind: ClassVar[str] = "chart"
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
class Stages:
    kind: ClassVar[str] = "stages"
    title: str
    stages: Sequence[Stage]
    note: str = ""


@dataclass(frozen=True)
class Columns:
    """Blocks side by side, where there is space."""

    kind: ClassVar[str] = "columns"
    blocks: Sequence["Block"]


Block = (
    Form
    | Table
    | Figures
    | Facts
    | Notice
    | Secret
    | Code
    | Chart
    | Drawing
    | Picture
    | Stages
    | Columns
)
