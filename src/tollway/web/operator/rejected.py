"""Rejected records: to view, correct and send again, drop, or download as a file; and why each was
rejected, in the reader's language.

A reason is stored as the English text that its sender gets, so that the reject file and the command
line show the same. It is made of a few phrases, which this module recognises and translates. A
reason with any other part, such as the text of an installed package, is shown as it is.
"""

import asyncio
import json
import re
from collections.abc import Sequence
from urllib.parse import quote_plus

import msgspec
from starlette.responses import Response

from tollway.intake.json_records import JsonNumber, json_number
from tollway.intake.rejects import (
    Rejected,
    correct_reject,
    forget_reject,
    open_reject,
    rejects_page,
)
from tollway.ledger.trail import note_act
from tollway.operations.catalogue import RECORD_KINDS
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Block, Cell, Code, Empty, Field, Form, Link, Notice, Table
from tollway.web.lists import page_part
from tollway.web.pages import FORM_BYTES_MAX
from tollway.web.wording import Say, grouped, sentences, short_id, titles, words_of

PATH = "/operator/data"
_FILE_ROWS_MAX = 10_000
_FILE_MAX_BYTES = 16 * 2**20
# To indent a record of megabytes would take the event loop for seconds.
_SHOWN_MAX = FORM_BYTES_MAX
# Of a form with a record, for its other fields.
_OTHERS_BYTES = 8192
_indenting = json.JSONEncoder(ensure_ascii=False, indent=2)
# Sources and kinds of records that are translated; names from operators or installed packages are
# shown as they are.
SAID_SOURCES = frozenset(sentences("uploaded file"))
SAID_KINDS = frozenset(
    sentences("product-figures", "coupon-claims", "promotion-material", "orders")
)


async def rejects_table(context: Context) -> Table:
    say = context.say
    source, _, record_id = context.query("after").rpartition(":")
    found = await rejects_page(context.database, source, record_id, PAGE_ROWS + 1)
    part = page_part(found, source, PATH, lambda last: f"{last.source}:{last.id}")
    links = [Link(say("Download the rejected records"), f"{PATH}/rejected.jsonl")]
    links.append(Link(say("Try all again"), context.question(f"{PATH}/replay")))
    return Table(
        titles(say, "Received", "Data source", "Kind", "Reason", "Record"),
        [_reject_row(context, each) for each in part.rows],
        Empty(say("No record is rejected.")),
        title=say("Rejected records"),
        links=links if part.rows else [],
        older=part.next,
        newest=part.first,
        is_by_name=True,
    )


def _reject_row(context: Context, each: Rejected) -> list[Cell]:
    return [
        context.time(each.received_at_s),
        *(Cell(text, "time") for text in _source_and_kind(context, each)),
        Cell(said_reason(context.say, each.reason)),
        Cell(short_id(each.id), "code", address(f"{PATH}/record", id=each.id), each.id),
    ]


def _source_and_kind(context: Context, rejected: Rejected) -> tuple[str, str]:
    source, kind = rejected.source, rejected.kind
    return (
        context.say(source) if source in SAID_SOURCES else source,
        context.say(kind) if kind in SAID_KINDS else kind,
    )


async def show_record(context: Context) -> Response:
    """One rejected record, to correct. The trail records the view: it may be personal data."""
    sealer, record_id = context.services.vault.sealer, context.query("id")
    opened = await open_reject(context.database, sealer, record_id)
    subject, shown = f"source {opened.rejected.source}", {"record": record_id}
    await note_act(context.database, context.runtime, "record show", subject, shown)
    problem = said_reason(context.say, opened.rejected.reason)
    return _record_page(context, opened.rejected, opened.record, problem)


def _record_page(context: Context, rejected: Rejected, text: str | None, problem: str) -> Response:
    say = context.say
    dropping = Form(
        f"{PATH}/drop",
        say("Drop the record"),
        hidden={"id": rejected.id},
        title=say("Drop it"),
        tone="warn",
        is_folded=True,
    )
    return context.page(
        say("Rejected record"),
        [Notice(problem, "soon"), _record_block(say, rejected.id, text), dropping],
        lead=" · ".join((*_source_and_kind(context, rejected), rejected.id)),
        crumbs=[Link(say("Data"), PATH)],
    )


def _record_block(say: Say, record_id: str, text: str | None) -> Block:
    """The form that corrects a record; without one its beginning, or why there is none."""
    if text is None:
        return Notice(say("The record cannot be read: its key is missing."), "bad")
    record = _indented(text) if len(text) <= _SHOWN_MAX else text
    if not _fits_form(record):
        beginning = say(
            "Too long to be corrected here: its first {count} characters",
            count=grouped(min(len(record), _SHOWN_MAX)),
        )
        return Code(say("Record"), [(beginning, record[:_SHOWN_MAX])])
    return Form(
        f"{PATH}/correct",
        say("Save and send again"),
        [Field("record", say("Record"), "textarea", record, length_max=FORM_BYTES_MAX)],
        hidden={"id": record_id},
        title=say("Correct it"),
    )


def _fits_form(text: str) -> bool:
    """Whether a form can send a text back: escaped, with two characters at the end of a line."""
    # Escaping a text of three times the length would take the event loop for long.
    if len(text.encode(errors="replace")) > FORM_BYTES_MAX:
        return False
    sent = quote_plus(text.replace("\n", "\r\n"), errors="replace")
    return len(sent) <= FORM_BYTES_MAX - _OTHERS_BYTES


def _indented(text: str) -> str:
    """Indented JSON. A text that is not JSON stays as it is, and so does one that a page cannot
    show: with half of a surrogate pair, nested too deeply, or with a number that would change.
    And so does one that would be too long: nested lists would have megabytes of blanks."""
    shown, left = "", _SHOWN_MAX
    try:
        for piece in _indenting.iterencode(json.loads(text, parse_float=_exact)):
            left -= len(piece)
            if left < 0:
                return text
            shown += piece
        shown.encode()
    except (ValueError, RecursionError):
        return text
    return shown


def _exact(text: str) -> float:
    if isinstance(json_number(text), JsonNumber):
        raise ValueError("another number would be shown")
    return float(text)


async def correct_act(context: Context) -> Response:
    sealer, record_id = context.services.vault.sealer, context.form.get("id", "")
    rejected = (await open_reject(context.database, sealer, record_id)).rejected
    text = context.form.get("record", "")
    reason = await correct_reject(
        context.database, sealer, RECORD_KINDS, record_id, text, context.runtime
    )
    if not reason:
        return context.go(PATH, said="stored")
    problem = context.say("Still rejected. {reason}", reason=said_reason(context.say, reason))
    return _record_page(context, rejected, text, problem)


async def drop_act(context: Context) -> Response:
    say, record_id = context.say, context.form.get("id", "")
    context.confirm(
        say("Drop the rejected record {id}? It cannot be undone.", id=record_id),
        say("Drop the record"),
    )
    await forget_reject(context.database, record_id, context.runtime)
    return context.go(PATH)


async def rejected_file(context: Context) -> Response:
    """Rejected records with their reasons, one JSON object on a line: all of them, or as many as
    memory allows."""
    async with context.web.making_file():
        lines = await _file_lines(context)
    subject, written = "rejected records", {"records": len(lines)}
    await note_act(context.database, context.runtime, "record export", subject, written)
    headers = {"Content-Disposition": 'attachment; filename="rejected.jsonl"'}
    return Response(b"".join(lines), media_type="application/x-ndjson", headers=headers)


async def _file_lines(context: Context) -> list[bytes]:
    sealer, lines, size = context.services.vault.sealer, list[bytes](), 0
    source = record_id = ""
    while len(lines) < _FILE_ROWS_MAX:
        found = await rejects_page(context.database, source, record_id, PAGE_ROWS)
        for each in found:
            # An embedded database answers at once: calls run in between.
            await asyncio.sleep(0)
            opened = await open_reject(context.database, sealer, each.id)
            facts = {**msgspec.to_builtins(each), "record": opened.record}
            line = json.dumps(facts, ensure_ascii=False).encode() + b"\n"
            size += len(line)
            if lines and size > _FILE_MAX_BYTES:
                return lines
            lines.append(line)
        if len(found) < PAGE_ROWS:
            break
        source, record_id = found[-1].source, found[-1].id
    return lines


# The phrases of reasons are those that have a translation.
_WHOLE, *_OTHER = words_of("zh", "_rejected")
PROBLEMS, EXPECTED = (
    tuple(words_of("zh", f"_rejected_{each}")) for each in ("problems", "expected")
)
# A reason never repeats what a record says, except for short numbers.
_VALUES = {"number": "-?[0-9.]+", "count": "[0-9,]+"}


def _pattern(template: str) -> re.Pattern[str]:
    """Matches a template with its values filled in."""
    parts = re.split(r"\{(\w+)\}", template)
    texts = [re.escape(each) for each in parts[::2]]
    named = [f"(?P<{name}>{_VALUES.get(name, '.+?')})" for name in parts[1::2]]
    return re.compile("".join(a + b for a, b in zip(texts, [*named, ""], strict=True)), re.DOTALL)


# The line number between the name of an uploaded file and the reason. A name may contain the same.
_LINE = re.compile(r", (\d+): ")
_PATTERNS = {each: _pattern(each) for each in (_WHOLE, *_OTHER, *PROBLEMS, *EXPECTED)}


def said_reason(say: Say, reason: str) -> str:
    for found in reversed(list(_LINE.finditer(reason))):
        said = _said_without_line(say, reason[found.end() :])
        if said is not None:
            file, line = reason[: found.start()], found[1]
            return say("{file}, {line}: {reason}", file=file, line=line, reason=said)
    return _said_without_line(say, reason) or reason


def _said_without_line(say: Say, reason: str) -> str | None:
    whole = _PATTERNS[_WHOLE].fullmatch(reason)
    if whole is None:
        return said_phrase(say, reason, _OTHER)
    problem = said_phrase(say, whole["problem"], PROBLEMS)
    expected = said_phrase(say, whole["expected"], EXPECTED)
    if problem is None or expected is None:
        return None
    return say(_WHOLE, field=whole["field"], problem=problem, expected=expected)


def said_phrase(say: Say, text: str, known: Sequence[str]) -> str | None:
    """A text in the reader's language, if it matches one of these phrases."""
    for template in known:
        found = _PATTERNS[template].fullmatch(text)
        if found is not None:
            return say(template, **found.groupdict()) if found.groupdict() else say(template)
    return None
