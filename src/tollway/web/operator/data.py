"""Data: files to import, the sources that push, and trying rejected records again."""

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

import msgspec
from starlette.responses import Response

from tollway.intake.files import read_typed
from tollway.intake.loading import LoadResult, RecordKind, Reject, checked_chunks, load
from tollway.intake.raw_records import IntakeError, RawRecord
from tollway.intake.rejects import UPLOAD, keep_rejects, replay, sealed_reject
from tollway.intake.sources import (
    Source,
    SourceScope,
    add_source,
    list_sources,
    rotate_secret,
    set_source_scope,
)
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import note_act
from tollway.operations.catalogue import RECORD_KINDS
from tollway.store.last_runs import IMPORT_PREFIX, PUSH_PREFIX, LastRun, last_runs, note_run
from tollway.web.area import Context, Services, address
from tollway.web.blocks import Block, Cell, Field, Form, Link, Notice, Secret, Table
from tollway.web.jobs import Progress, find_job
from tollway.web.lists import BEGIN, list_part, plain_table
from tollway.web.operator.rejected import PATH, rejects_table
from tollway.web.page_errors import PageError
from tollway.web.pages import FORM_BYTES_MAX
from tollway.web.uploads import FILE_FIELD, Upload
from tollway.web.wording import grouped, sentence, sentences, written_list

SOURCE = f"{PATH}/source"
UPLOADING = "import"
_LIVE_S = 2
_SAID = {"stored": sentence("The record is stored.")}
# A file with more rejected records is probably of another kind.
_REJECTS_MAX = 10_000


async def show_data(context: Context, *first: Block) -> Response:
    say, runs = context.say, await last_runs(context.database)
    job = await find_job(context.database, UPLOADING, context.now_s)
    blocks = context.reported(_SAID, *first)
    if job is not None and job.is_running:
        text = say("The file is being loaded: {percent} %.", percent=job.percent)
        blocks.append(Notice(text, "soon"))
    else:
        if job is not None and job.problem:
            blocks.append(Notice(context.said(job.problem), "bad"))
        blocks.append(_upload_form(context))
    imports = [
        [
            Cell(say(name.removeprefix(IMPORT_PREFIX))),
            context.time(run.at_s),
            *_loaded(context, run.result),
        ]
        for name, run in runs.items()
        if name.startswith(IMPORT_PREFIX)
    ]
    if imports:
        titles = sentences("Kind", "When", "Read", "Stored", "Changed", "Rejected")
        blocks.append(plain_table(context, titles, imports, say("Last imports")))
    blocks.append(await _sources_table(context, runs))
    blocks.append(_source_form(context))
    blocks.append(await rejects_table(context))
    blocks.append(_columns_table(context))
    is_running = job is not None and job.is_running
    return context.page(say("Data"), blocks, live_s=_LIVE_S if is_running else 0)


async def _sources_table(context: Context, runs: Mapping[str, LastRun]) -> Table:
    say = context.say
    part = list_part(await list_sources(context.database), context.query(BEGIN), PATH)
    rows = []
    for each in part.rows:
        run = runs.get(PUSH_PREFIX + each.name)
        rotate = context.question(f"{PATH}/rotate", source=each.name)
        rows.append(
            [
                Cell(each.name, href=address(SOURCE, source=each.name)),
                _listed(context, each.speaks_for.shop),
                _listed(context, each.speaks_for.channel),
                context.time(run.at_s) if run else Cell(say("never")),
                context.time(each.rotated_at_s),
                Cell(say("Change secret"), href=rotate, of=each.name),
            ]
        )
    named = sentences("Data source", "For shops", "For channels", "Last push", "Secret changed")
    titles = (*named, "")
    none = say("No source is known yet: add one below.")
    table = plain_table(context, titles, rows, say("Sources"), none, "tollway source add NAME")
    return replace(table, older=part.next, newest=part.first, is_by_name=True)


def _columns_table(context: Context) -> Table:
    """The columns, or the fields of a line, of each kind of file."""
    rows = []
    for name, kind in RECORD_KINDS.items():
        for each_type in kind.record_types:
            tag = each_type.__struct_config__.tag
            fields = msgspec.structs.fields(each_type)
            needed = [f"kind={tag}"] if tag else []
            needed += [each.encode_name for each in fields if each.required]
            optional = [each.encode_name for each in fields if not each.required]
            listed = (Cell(" ".join(each), "mono") for each in (needed, optional))
            rows.append([Cell(context.say(name), "time"), *listed])
    titles = sentences("Kind", "Needed", "Optional")
    return plain_table(context, titles, rows, context.say("Columns of a file"))


def _listed(context: Context, listed: Sequence[str]) -> Cell:
    return Cell(context.say("all")) if "*" in listed else Cell(" ".join(listed) or "–", "mono")


def _loaded(context: Context, result: str) -> list[Cell]:
    figures = msgspec.json.decode(result, type=LoadResult)
    return [*map(context.number, msgspec.structs.astuple(figures))]


def _upload_form(context: Context) -> Form:
    say = context.say
    kinds = [(name, say(name)) for name in RECORD_KINDS]
    return Form(
        f"{PATH}/import",
        say("Load the file"),
        [
            Field("kind", say("Kind"), "select", choices=kinds),
            Field(FILE_FIELD, say("File"), "file", is_required=True),
        ],
        title=say("Import a file"),
        note=say(
            "CSV, JSON Lines, JSON, each also as .gz, or a spreadsheet (.xlsx). What is wrong is "
            "set aside below, with its reason."
        ),
        is_line=True,
        takes_file=True,
    )


async def import_act(context: Context) -> Response:
    upload, kind = context.upload, RECORD_KINDS.get(context.form.get("kind", ""))
    assert upload is not None
    if upload.path is None or not upload.name or kind is None:
        upload.drop()
        raise PageError(400, "There is no file", "Choose a kind and a file.")
    started = False
    try:
        load_file = partial(_load, context.services, context.runtime, kind, upload)
        started = await context.services.jobs.start(UPLOADING, load_file)
    finally:
        if not started:
            upload.drop()
    if not started:
        raise PageError(409, "Another file is being loaded", "Wait until it is done.")
    return context.go(PATH)


async def _load(
    services: Services, runtime: Runtime, kind: RecordKind, upload: Upload, progress: Progress
) -> None:
    """Loads an uploaded file, and closes it. Keeps the rejected records, sealed."""
    path, database, sealer = upload.path, services.database, services.vault.sealer
    assert path is not None
    sealed = partial(_sealed, services, secrets.token_bytes(32), kind.name, upload.name)
    begun = {"kind": kind.name, "file": upload.name}
    try:
        await note_act(database, runtime, "import begin", f"records {kind.name}", begun)
        size = path.stat().st_size
        loader = kind.make_loader(sealer)
        records = read_typed(path, kind.record_types, services.settings.zone, upload.name)
        chunks = checked_chunks(loader, records, kind.chunk_records, _as_json)
        total = LoadResult()
        while chunk := await asyncio.to_thread(lambda: list(islice(chunks, 1))):
            if wrong := chunk[0].rejects:
                rejects = [sealed(each) for each in wrong]
                await database.write(partial(keep_rejects, rejects=rejects))
            await load(database, loader, chunk, lambda _: None, lambda *_: None, total)
            await progress(chunk[0].at_byte, size)
            if total.rejected > _REJECTS_MAX:
                break
        result = msgspec.json.encode(total).decode()
        now_s = services.runtime.at_s()
        await note_run(database, IMPORT_PREFIX + kind.name, now_s, result=result)
        done = {"file": upload.name, **msgspec.to_builtins(total)}
        await note_act(database, runtime, "import", f"records {kind.name}", done)
        if total.rejected > _REJECTS_MAX:
            raise IntakeError(
                "More than {most:,} records of {name} were rejected: reading stopped there. "
                "Correct the file, and load it again.",
                most=_REJECTS_MAX,
                name=upload.name,
            )
    finally:
        upload.drop()


def _sealed(
    services: Services, key: bytes, kind: str, file: str, reject: Reject
) -> dict[str, object]:
    """A rejected record as it is stored. Its id is a keyed hash, so that trying out records does
    not reveal what a sealed one says."""
    return sealed_reject(
        services.vault.sealer,
        key,
        UPLOAD,
        kind,
        reject.record.encode(errors="backslashreplace"),
        f"{file}, {reject.line}: {reject.reason}",
        services.runtime.at_s(),
    )


def _as_json(raw: RawRecord) -> str:
    """A record as JSON, to correct it on a page, whatever the format of its file. A lost cell is
    an object, which no field accepts: otherwise it would be stored with the corrected record."""
    if isinstance(raw.source, bytes) or raw.values is None:
        return raw.text()
    return json.dumps(raw.values, ensure_ascii=False, default=lambda cell: {"lost": str(cell)})


def _source_form(context: Context, source: Source | None = None) -> Form:
    """The form that adds a source, or changes for whom a source speaks."""
    say, spoken = context.say, source.speaks_for if source else SourceScope()
    name = Field("name", say("Name"), is_required=True, length_max=64)
    fields = [
        Field(name, label, value=" ".join(listed), length_max=FORM_BYTES_MAX)
        for name, label, listed in (
            ("shops", say("For shops"), spoken.shop),
            ("channels", say("For channels"), spoken.channel),
        )
    ]
    return Form(
        f"{SOURCE}/add" if source is None else f"{SOURCE}/set",
        say("Add source") if source is None else say("Save"),
        [name, *fields] if source is None else fields,
        hidden={} if source is None else {"source": source.name},
        title=say("Add a source") if source is None else say("What it may push"),
        note=say("Several shops or channels are separated by spaces; * is all of them."),
        is_line=True,
        is_folded=source is None,
    )


async def _wanted_source(context: Context) -> Source:
    name = context.form.get("source", "")
    source = next((e for e in await list_sources(context.database) if e.name == name), None)
    if source is None:
        raise PageError(404, "There is no such source", "Choose one of the list.")
    return source


async def show_source(context: Context) -> Response:
    say, source = context.say, await _wanted_source(context)
    form, crumbs = _source_form(context, source), [Link(say("Data"), PATH)]
    return context.page(source.name, [form], crumbs=crumbs)


def _spoken_for(context: Context) -> SourceScope:
    shops, channels = (written_list(context.form.get(name, "")) for name in ("shops", "channels"))
    return SourceScope(tuple(shops), tuple(channels))


async def source_set_act(context: Context) -> Response:
    name, spoken_for = context.form.get("source", ""), _spoken_for(context)
    await set_source_scope(context.database, name, spoken_for, context.runtime)
    return context.go(PATH)


async def source_act(context: Context) -> Response:
    form, speaks_for = context.form, _spoken_for(context)
    sealer, name = context.services.vault.sealer, form.get("name", "").strip()
    made = await add_source(context.database, sealer, name, speaks_for, context.runtime)
    return await show_data(context, _secret(context, made.secret, name))


def _last_change(source: Source) -> str:
    return str(source.rotated_at_s or "never")


async def rotate_act(context: Context) -> Response:
    say, source = context.say, await _wanted_source(context)
    name = source.name
    question = say(
        "Make a new secret for {name}? The one before it is accepted until the next change.",
        name=name,
    )
    # The state that the reader was asked about: from the form, never from an address.
    shown = context.form.get("changed") if context.form.get("sure") else _last_change(source)
    form = {**context.form, "changed": shown or ""}
    replace(context, form=form).confirm(question, say("Change secret"))
    sealer = context.services.vault.sealer
    made = await rotate_secret(
        context.database,
        sealer,
        name,
        context.runtime,
        is_expected=lambda found: _last_change(found) == shown,
    )
    return await show_data(context, _secret(context, made.secret, name))


def _secret(context: Context, secret: str, name: str) -> Secret:
    say = context.say
    return Secret(
        say("The secret of {name}", name=name), secret, say("Copy it now: it is not shown again.")
    )


async def replay_act(context: Context) -> Response:
    say, database, runtime = context.say, context.database, context.runtime
    subject = "rejected records"
    context.confirm(
        say("Try all rejected records again? Those that are good by now are stored."),
        say("Try all again"),
    )
    await note_act(database, runtime, "record replay begin", subject)
    async with context.web.without_slot():
        done = await replay(database, context.services.vault.sealer, RECORD_KINDS, None)
    await note_act(database, runtime, "record replay", subject, msgspec.to_builtins(done))
    text = say(
        "{stored} stored, {unchanged} known already, {rejected} still rejected.",
        stored=grouped(done.stored),
        unchanged=grouped(done.unchanged),
        rejected=grouped(done.rejected),
    )
    return await show_data(context, Notice(text, "soon" if done.rejected else "good"))
