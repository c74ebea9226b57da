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
_CHANGE_SHOWN = 120


@command(trail, "show")
async def show(
    session: Session,
    of: Annotated[
        str | None, option("Only acts on this subject, such as 'account acc_1' or operator.")
    ] = None,
    limit: Annotated[int, option("How many at most.", min=1, max=100_000, show_default=True)] = 50,
) -> Output:
    """Show the acts of operators, each with what was before and after.

    Of a long change it shows the beginning, with what was changed first; --json has all.
    """
    acts = await newest_acts(await session.open(), limit, of=of or "")
    table = Table(
        ("number", "time", "by", "act", "subject", "change", "hash"),
        [
            (
                each.number,
                Time(each.at_ms / 1000),
                each.by,
                each.act,
                each.subject,
                _change(each.before, each.after),
                each.hash.hex()[:_HASH_SHOWN],
            )
            for each in acts
        ],
        empty=f"There is no act of {of}." if of else "No operator has done anything yet.",
    )
    return Output([_shown(each) for each in acts], table)


def _change(before: str | None, after: str | None) -> str | None:
    """What was before and after, as people read it: what changed first, cut to fit a terminal."""
    old, new = _fields(before), _fields(after)
    if before is after is None:
        return None
    if old is None or new is None:
        # No fields: as it is.
        shown = " → ".join(each for each in (before, after) if each is not None)
    else:
        names = [each for each in {**old, **new} if (old.get(each), new.get(each)) != (None, None)]
        # False sorts before True, and the sort is stable.
        names.sort(key=lambda name: old.get(name) == new.get(name))
        shown = ", ".join(_field(name, old, new) for name in names)
    return shown if len(shown) <= _CHANGE_SHOWN else f"{shown[: _CHANGE_SHOWN - 1]}…"


def _fields(state: str | None) -> dict[str, object] | None:
    """The fields of a state; None if it has none, but is another value or no JSON."""
    if state is None:
        return {}
    try:
        fields = msgspec.json.decode(state)
    except msgspec.DecodeError:
        return None
    return fields if isinstance(fields, dict) else None


def _field(name: str, old: dict[str, object], new: dict[str, object]) -> str:
    before, after = _text(old.get(name)), _text(new.get(name))
    is_changed = name in old and before != after
    return f"{name} {before} → {after}" if is_changed else f"{name} {after}"


def _text(value: object) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _shown(act: OperatorAct) -> dict[str, object]:
    """An act as --json prints it."""
    before, after = (msgspec.Raw((each or "null").encode()) for each in (act.before, act.after))
    facts = {"before": before, "after": after, "hash": act.hash.hex()}
    return {**msgspec.structs.asdict(act), **facts}
