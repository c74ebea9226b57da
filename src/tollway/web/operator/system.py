"""The gateway itself: nodes, the audit, the backup, and the settings."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from dataclasses import fields
from pathlib import Path
from typing import BinaryIO

import msgspec
from starlette.responses import Response, StreamingResponse

from tollway.ledger.trail import note_act
from tollway.settings import Settings
from tollway.store.last_runs import AUDIT, BACKUP, last_runs, note_run
from tollway.store.open import sqlite_path, without_password
from tollway.store.serving_nodes import ServingNode, all_nodes
from tollway.store.sqlite.files import make_backup_folder
from tollway.web.area import Context
from tollway.web.blocks import Block, Cell, Form, Notice
from tollway.web.jobs import Progress, find_job
from tollway.web.lists import plain_table
from tollway.web.page_errors import PageError
from tollway.web.wording import exact_time, grouped, sentence, sentences

NODES = "/operator/nodes"
AUDITS = "/operator/audit"
BACKUPS = "/operator/backup"
SETTINGS = "/operator/settings"
_PIECE_BYTES = 1024 * 1024
_LIVE_S = 2
_ORIGINS = {
    "command line": sentence("command line"),
    "environment": sentence("environment"),
    "file": sentence("tollway.toml"),
    "default": sentence("default"),
}


async def show_nodes(context: Context) -> Response:
    say, nodes = context.say, await all_nodes(context.database)
    newest = max((each.knows_schema for each in nodes), default="")
    table = plain_table(
        context,
        sentences("Node", "State", "Version", "Schema", "Connections", "Replica behind", "Seen"),
        [_node_row(context, each, newest) for each in nodes],
        command="tollway serve",
    )
    return context.page(say("Nodes"), [table])


def _node_row(context: Context, node: ServingNode, newest: str) -> list[Cell]:
    say = context.say
    if not node.is_alive(int(context.now_s * 1000)):
        state = Cell(say("silent"), tone="bad")
    elif node.knows_schema < newest:
        state = Cell(say("older version"), tone="soon")
    else:
        state = Cell(say("Serving"), tone="good")
    lag = "–" if node.lag_ms is None else f"{node.lag_ms / 1000:.1f} s"
    return [
        Cell(node.name, "mono"),
        state,
        Cell(node.version),
        Cell(node.knows_schema, "mono"),
        context.number(node.connections),
        Cell(lag, "number"),
        context.time(node.seen_at_ms / 1000),
    ]


class _Check(msgspec.Struct):
    name: str
    holds: str
    rows: int
    breaches: int


class _Breach(msgspec.Struct):
    name: str
    account_id: str | None
    unit: str | None
    difference: str


class _Report(msgspec.Struct):
    """What the page shows of an audit; the audit itself has more."""

    checks: list[_Check]
    breaches: list[_Breach]


async def show_audit(context: Context) -> Response:
    say = context.say
    job = await find_job(context.database, AUDIT, context.now_s)
    run = (await last_runs(context.database)).get(AUDIT)
    blocks: list[Block] = []
    is_running = job is not None and job.is_running
    if job is not None and is_running:
        text = say("The audit runs: {done} of {total} checks.", done=job.done, total=job.total)
        blocks.append(Notice(text, "soon"))
    else:
        note = say("It compares everything that is stored twice, while calls go on.")
        blocks.append(Form(f"{AUDITS}/run", say("Run the audit"), note=note))
    if job is not None and job.problem:
        blocks.append(Notice(context.said(job.problem), "bad"))
    if run is None and not is_running:
        blocks.append(Notice(say("There was no audit yet.")))
    if run is not None:
        at = exact_time(run.at_s, context.web.zone)
        good, bad = say("All checks passed, {time}.", time=at), say("It failed, {time}.", time=at)
        blocks.append(Notice(good if run.is_good else bad, "good" if run.is_good else "bad"))
        blocks += _report_blocks(context, msgspec.json.decode(run.result, type=_Report))
    return context.page(say("Audit"), blocks, live_s=_LIVE_S if is_running else 0)


def _report_blocks(context: Context, report: _Report) -> list[Block]:
    say = context.say
    checks = plain_table(
        context,
        sentences("Check", "Rows", "Wrong", "What must hold"),
        [
            [
                Cell(each.name, "mono"),
                context.number(each.rows),
                Cell(grouped(each.breaches), "number", tone="bad" if each.breaches else "good"),
                Cell(say(each.holds)),
            ]
            for each in report.checks
        ],
        say("Checks"),
    )
    if not report.breaches:
        return [checks]
    breaches = plain_table(
        context,
        sentences("Wrong", "Account", "Unit", "What differs"),
        [
            [
                Cell(each.name, "mono"),
                Cell(each.account_id or "", "mono"),
                Cell(each.unit or ""),
                Cell(each.difference),
            ]
            for each in report.breaches
        ],
        say("What is wrong"),
    )
    return [breaches, checks]


async def audit_act(context: Context) -> Response:
    services = context.services

    async def work(progress: Progress) -> None:
        is_good, result = await services.work.audit(progress)
        now_s = services.runtime.at_s()
        await note_run(services.database, AUDIT, now_s, is_good=is_good, result=result)

    if await services.jobs.start(AUDIT, work):
        await note_act(services.database, context.runtime, "audit run", "gateway")
    return context.go(AUDITS)


async def show_backup(context: Context) -> Response:
    say, run = context.say, (await last_runs(context.database)).get(BACKUP)
    if context.services.work.back_up is None:
        text = say(
            "PostgreSQL is copied with its own tools: pg_dump, or the backups of its provider."
        )
        return context.page(say("Backup"), [Notice(text)])
    last = say("There was no backup yet.")
    if run is not None:
        last = say("The last one was made {time}.", time=exact_time(run.at_s, context.web.zone))
    note = say(
        "A copy of the database as it is at this moment, while calls go on. The keys are not in "
        "it: without the files .keys and .secret beside the database, personal data cannot be "
        "read."
    )
    button = say("Make and download a backup")
    form = Form(f"{BACKUPS}/download", button, note=note, is_download=True)
    return context.page(say("Backup"), [Notice(last, "" if run else "soon"), form])


async def backup_act(context: Context) -> Response:
    back_up = context.services.work.back_up
    if back_up is None:
        raise PageError(409, "That is not possible", "Use the tools of the database.")
    database = Path(sqlite_path(context.services.settings.database))
    folder = make_backup_folder(database)
    try:
        async with context.web.without_slot():
            await asyncio.to_thread(back_up, folder / database.name)
        file = (folder / database.name).open("rb")
    finally:
        # The open file keeps the copy alive: however the download ends, nothing stays on disk.
        shutil.rmtree(folder)
    try:
        size = os.fstat(file.fileno()).st_size
        now_s = context.services.runtime.at_s()
        made = {"bytes": size}
        result = msgspec.json.encode(made).decode()
        await note_run(context.database, BACKUP, now_s, result=result)
        await note_act(context.database, context.runtime, "backup download", "gateway", made)
    except BaseException:
        file.close()
        raise
    day = context.web.now().strftime("%Y%m%d-%H%M")
    headers = {
        "Content-Disposition": f'attachment; filename="tollway-{day}.db"',
        "Content-Length": str(size),
    }
    return StreamingResponse(_pieces(file), media_type="application/octet-stream", headers=headers)


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    with file:
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            yield piece


async def show_settings(context: Context) -> Response:
    say, settings = context.say, context.services.settings
    rows = []
    for field in fields(Settings):
        value = getattr(settings, field.name)
        if field.name in ("database", "read_database") and value:
            value = without_password(value)
        origin = origin_of(field.name, is_default=value == field.default)
        rows.append(
            [
                Cell(field.name, "code"),
                Cell(str(value) or "–", "mono"),
                Cell(say(_ORIGINS[origin]), "time"),
                Cell(say(field.metadata["meaning"])),
            ]
        )
    table = plain_table(context, sentences("Setting", "Value", "Set by", "Meaning"), rows)
    lead = say("Read-only: set them in the environment or in tollway.toml, then restart.")
    return context.page(say("Settings"), [table], lead=lead)


def origin_of(name: str, *, is_default: bool) -> str:
    """Where a setting came from, in order of precedence."""
    option = f"--{name.replace('_', '-')}"
    if any(each == option or each.startswith(f"{option}=") for each in sys.argv):
        return "command line"
    if f"TOLLWAY_{name.upper()}" in os.environ:
        return "environment"
    if is_default:
        return "default"
    # An option can bring another setting along, such as --demo.
    is_in_file = Path(os.environ.get("TOLLWAY_CONFIG") or "tollway.toml").exists()
    return "file" if is_in_file else "command line"
