"""Records that were rejected: to look at, mend and send again, drop, or take along as a file."""

import json

import msgspec
from starlette.responses import Response

from tollway.intake.rejects import Rejected, forget_reject, mend_reject, open_reject, rejects_page
from tollway.operations.catalogue import RECORD_KINDS
from tollway.web.area import PAGE_ROWS, Context, address
from tollway.web.blocks import Cell, Empty, Field, Form, Link, Notice, Table
from tollway.web.operator.reject_reasons import said_reason
from tollway.web.operator.tables import record
from tollway.web.wording import sentences, short_id

PATH = "/operator/data"
_FILE_ROWS_MAX = 10_000
_FILE_MAX_BYTES = 16 * 2**20
_RECORD_MAX = 12_000
# Sources and kinds of records that are said in the reader's language; what an operator or an
# installed package has named is shown as it is.
SAID_SOURCES = frozenset(sentences("uploaded file"))
SAID_KINDS = frozenset(
    sentences("product-figures", "coupon-claims", "promotion-material", "orders")
)


async def rejects_table(context: Context) -> Table:
    say = context.say
    source, _, record_id = context.query("after").rpartition(":")
    found = await rejects_page(context.database, source, record_id, PAGE_ROWS + 1)
    rows = [_reject_row(context, each) for each in found[:PAGE_ROWS]]
    last = found[PAGE_ROWS - 1] if len(found) > PAGE_ROWS else None
    titles = sentences("Received", "Data source", "Kind", "Reason", "Record")
    links = [Link(say("Reject file"), f"{PATH}/rejected.jsonl")]
    links.append(Link(say("Try all again"), context.question(f"{PATH}/replay")))
    return Table(
        [*map(say, titles)],
        rows,
        Empty(say("No record is rejected.")),
        title=say("Rejected records"),
        links=links if rows else [],
        older=address(PATH, after=f"{last.source}:{last.id}") if last else "",
        newest=PATH if source else "",
        is_by_name=True,
    )


def _reject_row(context: Context, each: Rejected) -> list[Cell]:
    return [
        context.time(each.received_at_s),
        Cell(_said_source(context, each), "time"),
        Cell(_said_kind(context, each), "time"),
        Cell(said_reason(context.say, each.reason)),
        Cell(short_id(each.id), "code", address(f"{PATH}/record", id=each.id), each.id),
    ]


def _said_source(context: Context, rejected: Rejected) -> str:
    name = rejected.source
    return context.say(name) if name in SAID_SOURCES else name


def _said_kind(context: Context, rejected: Rejected) -> str:
    name = rejected.kind
    return context.say(name) if name in SAID_KINDS else name


async def show_record(context: Context) -> Response:
    """One rejected record, to be mended. Looking at it is recorded: it may have personal data."""
    sealer, record_id = context.services.vault.sealer, context.query("id")
    opened = await open_reject(context.database, sealer, record_id)
    await record(context, "record show", f"source {opened.rejected.source}", {"record": record_id})
    problem = said_reason(context.say, opened.rejected.reason)
    return _record_page(context, opened.rejected, opened.record, problem)


def _record_page(context: Context, rejected: Rejected, text: str, problem: str) -> Response:
    say = context.say
    mending = Form(
        f"{PATH}/mend",
        say("Save and send again"),
        [Field("record", say("Record"), "textarea", _indented(text), length_max=_RECORD_MAX)],
        hidden={"id": rejected.id},
        title=say("Mend it"),
    )
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
        [Notice(problem, "soon"), mending, dropping],
        lead=" · ".join(
            (_said_source(context, rejected), _said_kind(context, rejected), rejected.id)
        ),
        crumbs=[Link(say("Data"), PATH)],
    )


def _indented(text: str) -> str:
    """JSON on several lines. What is none stays as it was written, and so does what a page cannot
    show: half of a surrogate pair, or too many levels."""
    try:
        shown = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
        shown.encode()
    except (ValueError, RecursionError):
        return text
    return shown


async def mend_act(context: Context) -> Response:
    sealer, record_id = context.services.vault.sealer, context.form.get("id", "")
    rejected = (await open_reject(context.database, sealer, record_id)).rejected
    text = context.form.get("record", "")
    reason = await mend_reject(
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
    sealer, lines, size = context.services.vault.sealer, list[bytes](), 0
    source = record_id = ""
    while len(lines) < _FILE_ROWS_MAX:
        found = await rejects_page(context.database, source, record_id, PAGE_ROWS)
        for each in found:
            opened = await open_reject(context.database, sealer, each.id)
            facts = {**msgspec.to_builtins(each), "record": opened.record}
            line = json.dumps(facts, ensure_ascii=False).encode() + b"\n"
            size += len(line)
            if lines and size > _FILE_MAX_BYTES:
                break
            lines.append(line)
        if len(found) < PAGE_ROWS or size > _FILE_MAX_BYTES:
            break
        source, record_id = found[-1].source, found[-1].id
    await record(context, "record export", "rejected records", {"records": len(lines)})
    headers = {"Content-Disposition": 'attachment; filename="rejected.jsonl"'}
    return Response(b"".join(lines), media_type="application/x-ndjson", headers=headers)
