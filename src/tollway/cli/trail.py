"""`tollway trail`: what operators did, the newest first."""

from typing import Annotated

import msgspec
import typer

from tollway.cli.command import Session, add_group, command
from tollway.cli.output import Output, Table, Time
from tollway.cli.parameters import option
from tollway.ledger.trail import OperatorAct, newest_acts

commands = typer.Typer()
trail = add_group(commands, "trail")

_HASH_SHOWN = 12
_VALUE_SHOWN = 100


class ShownAct(msgspec.Struct, frozen=True):
    """An act as --json prints it."""

    number: int
    at_ms: int
    by: str
    act: str
    subject: str
    before: msgspec.Raw
    after: msgspec.Raw
    hash: str


@command(trail, "show")
async def show(
    session: Session,
    of: Annotated[
        str | None, option("Only acts on this subject, such as 'account acc_1' or operator.")
    ] = None,
    limit: Annotated[int, option("How many at most.", min=1, max=100_000, show_default=True)] = 50,
) -> Output:
    """Show the acts of operators, each with what was before and after.

    Of a long value it shows the beginning, with what was changed first; --json has all.
    """
    acts = await newest_acts(await session.open(), limit, of=of or "")
    table = Table(
        ("number", "time", "by", "act", "subject", "before", "after", "hash"),
        [
            (
                each.number,
                Time(each.at_ms / 1000),
                each.by,
                each.act,
                each.subject,
                _fitting(each.before, each.after),
                _fitting(each.after, each.before),
                each.hash.hex()[:_HASH_SHOWN],
            )
            for each in acts
        ],
        empty=f"There is no act of {of}." if of else "No operator has done anything yet.",
    )
    return Output([_shown(each) for each in acts], table)


def _fitting(state: str | None, other: str | None) -> str | None:
    """What was before or after, as a terminal can show it: cut, with the changed fields first."""
    if state is None or len(state) <= _VALUE_SHOWN:
        return state
    try:
        fields, others = (msgspec.json.decode(each or "null") for each in (state, other))
    except msgspec.DecodeError:
        fields = others = None
    if isinstance(fields, dict) and isinstance(others, dict):
        # False sorts before True, and the sort is stable.
        names = sorted(fields, key=lambda name: fields[name] == others.get(name))
        state = msgspec.json.encode({name: fields[name] for name in names}).decode()
    return f"{state[: _VALUE_SHOWN - 1]}…"


def _shown(act: OperatorAct) -> ShownAct:
    before, after = (msgspec.Raw((each or "null").encode()) for each in (act.before, act.after))
    return ShownAct(
        act.number, act.at_ms, act.by, act.act, act.subject, before, after, act.hash.hex()
    )
