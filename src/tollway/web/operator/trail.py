"""The trail of acts: who did what, when, and what it changed.

Acts and the fields that they changed are translated if `words/` has them; those of installed
packages are shown as they are.
"""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from tollway.carriers.carriers import ServiceArea
from tollway.ledger.accounts import names_of
from tollway.ledger.trail import OperatorAct, newest_acts
from tollway.web.account_parts import unit_name
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Cell, Empty, Link, Table
from tollway.web.lists import AFTER_ALL, before_number, page_part
from tollway.web.operator.carriers import shown_area
from tollway.web.operator.rejected import SAID_KINDS, SAID_SOURCES
from tollway.web.wording import exact_time, grouped, sentence, sentences, titles

TRAIL = "/operator/trail"
_SHOWN_MAX = 160
_OF_ACCOUNT = "account "
# The first word of a subject or an actor.
_NOUNS = frozenset(
    sentences(
        *("account", "backup", "carrier", "operation", "operator", "member", "shop", "user"),
        *("record", "records", "source", "setting", "gateway", "database", "waybills"),
        "rejected records",
    )
)
_SAID_NAMES = {"source": SAID_SOURCES, "records": SAID_KINDS}
_TOKEN_KINDS = {"test": sentence("sandbox")}
# Fields whose values are translated too.
_SAID_FIELDS = ("kind", "role", "owner_kind", "granted_by", "extended_by")


async def show_trail(context: Context) -> Response:
    say, of, before = context.say, context.query("of"), before_number(context)
    found = await newest_acts(context.database, PAGE_ROWS + 1, of=of, before_number=before)
    begin = None if before == AFTER_ALL else before
    part = page_part(found, begin, TRAIL, lambda last: last.number, "before", of=of)
    names = await names_of(
        context.database,
        (
            each.subject[len(_OF_ACCOUNT) :]
            for each in part.rows
            if each.subject.startswith(_OF_ACCOUNT)
        ),
    )
    rows = [
        [
            context.number(each.number),
            context.log_time(each.at_ms / 1000),
            Cell(_named(context, each.by), "", address(TRAIL, of=each.by), each.by),
            Cell(say(each.act), "time", title=each.act),
            Cell(
                _subject(context, each.subject, names),
                "" if each.subject.startswith(_OF_ACCOUNT) else "mono",
                address(TRAIL, of=each.subject),
                each.subject,
            ),
            Cell(_change(context, each), title=each.after or each.before or ""),
        ]
        for each in part.rows
    ]
    table = Table(
        titles(say, "Number", "When", "By", "Act", "Subject", "Change"),
        rows,
        Empty(say("No act is recorded yet.")),
        older=part.next,
        newest=part.first,
    )
    lead, actions = say("Every act of an operator, never changed."), []
    if of:
        # Says whose acts these are, and links to all acts and to the account.
        account_id = of.removeprefix(_OF_ACCOUNT)
        named = await names_of(context.database, [account_id])
        lead = _subject(context, of, named)
        actions = [Link(say("All acts"), TRAIL)]
        if account_id in named and account_id != of:
            actions.append(Link(say("Show account"), address("/operator/account", id=account_id)))
    return context.page(say("Trail"), [table], lead=lead, actions=actions)


def _subject(context: Context, text: str, names: Mapping[str, str]) -> str:
    """A subject as people know it: an account by its name."""
    name = names.get(text.removeprefix(_OF_ACCOUNT))
    return _named(context, text if name is None else f"{_OF_ACCOUNT}{name}")


def _named(context: Context, text: str) -> str:
    """A subject or actor, with its kind in the reader's language."""
    if text in _NOUNS:
        return context.say(text)
    kind, space, name = text.partition(" ")
    said = context.say(name) if name in _SAID_NAMES.get(kind, ()) else name
    return f"{context.say(kind)}{space}{said}" if kind in _NOUNS else text


def _change(context: Context, act: OperatorAct) -> str:
    """What an act changed, briefly: without unchanged or empty fields, and without its subject."""
    was, now = (msgspec.json.decode(each) if each else None for each in (act.before, act.after))
    if not isinstance(now, dict):
        left = was if now is None else now
        return "" if left is None else _said(context, left)[:_SHOWN_MAX]
    old = was if isinstance(was, dict) else {}
    subject = act.subject.partition(" ")[2]
    parts = []
    for name, value in now.items():
        said, label = _said(context, value, name), _label(context, name)
        if name in old and old[name] != value:
            text = f"{_said(context, old[name], name) or '–'} → {said or '–'}"
            parts.append(context.say("{title}: {text}", title=label, text=text))
        # An amount means nothing without its unit.
        elif name == "unit" or (name not in old and _is_worth_showing(name, said, subject)):
            parts.append(context.say("{title}: {text}", title=label, text=said))
    text = context.say(", ").join(parts)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _is_worth_showing(name: str, said: str, subject: str) -> bool:
    is_inner = name in ("id", "once") or name.endswith("_at_s")
    return said not in ("", subject) and not is_inner


def _label(context: Context, name: str) -> str:
    """The name of a field, in words."""
    return context.say(name.removesuffix("_at_s").replace("_", " "))


def _said(context: Context, value: object, name: str = "") -> str:
    """A value of an act, flattened if it is nested; an empty text if it is empty."""
    if isinstance(value, dict):
        return _said_parts(context, value, name)
    if isinstance(value, list):
        return " ".join(_said(context, each) for each in value)
    if isinstance(value, bool):
        return context.say("yes") if value else context.say("no")
    if isinstance(value, int):
        is_time = name.endswith("_at_s") and value
        return exact_time(value, context.web.zone) if is_time else grouped(value)
    text = "" if value is None else str(value)
    if name == "unit":
        return unit_name(context, text)
    return context.say(_TOKEN_KINDS.get(text, text)) if name in _SAID_FIELDS else text


def _said_parts(context: Context, parts: dict[str, object], name: str) -> str:
    if name == "area":
        return shown_area(context, msgspec.convert(parts, ServiceArea))
    inner = [(_label(context, key), _said(context, each, key)) for key, each in parts.items()]
    return context.say("; ").join(f"{label} {said}" for label, said in inner if said)
