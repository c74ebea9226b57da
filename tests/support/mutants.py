"""Mutants of a module: the same code with one small fault, such as `<` for `<=`.

What no test can see is left out: annotations, docstrings, assertions, the texts of errors, and how
a class is laid out in memory.
"""

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import NamedTuple

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}
# The others are the same as a condition that always holds, or one that never does.
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
# A change in place; what is written for it comes from the tree.
Change = Callable[[], None]
_UNSEEN = (ast.Import, ast.ImportFrom, ast.Assert, ast.Pass, ast.arguments)


class Mutant(NamedTuple):
    """A module with one fault: in which line, what was there and what is there now."""

    line: int
    was: str
    now: str
    source: str


def mutants_of(source: str) -> Iterator[Mutant]:
    """All mutants of a module, in the order of its lines."""
    lines = [parent.lineno for parent, _ in _changes(ast.parse(source))]
    for number in sorted(range(len(lines)), key=lines.__getitem__):
        tree = ast.parse(source)
        parent, change = list(_changes(tree))[number]
        was = ast.unparse(deepcopy(parent))
        change()
        # Of a long statement, the lines that differ tell enough.
        now = ast.unparse(ast.fix_missing_locations(parent))
        # `while True` can be given no condition that holds more often.
        if now == was:
            continue
        yield Mutant(parent.lineno, *_difference(was, now), ast.unparse(tree))


def _difference(was: str, now: str) -> tuple[str, str]:
    old, new = was.splitlines(), now.splitlines()
    while len(old) > 1 and len(new) > 1 and old[0] == new[0]:
        del old[0], new[0]
    return old[0].strip(), new[0].strip()


def _changes(tree: ast.Module) -> Iterator[tuple[ast.stmt, Change]]:
    for parent in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if not isinstance(block, list):
                continue
            for position, statement in enumerate(block):
                if isinstance(statement, _UNSEEN):
                    continue
                if _can_go(statement):
                    yield statement, _removal(block, position)
                for node, holder in _expressions(statement):
                    for change in _expression_changes(node, holder):
                        yield statement, change


def _can_go(statement: ast.stmt) -> bool:
    """Whether a statement does something that can simply be missing."""
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, ast.Attribute) for target in statement.targets)
    return isinstance(statement, (ast.AugAssign, ast.Raise, ast.Continue, ast.Delete))


def _removal(block: list[ast.stmt], position: int) -> Change:
    def change() -> None:
        # In place, so that what was there can be shown beside what is there.
        gone = block[position]
        block[position] = ast.copy_location(ast.Pass(), gone)
        gone.__class__ = ast.Pass  # type: ignore[assignment]
        gone._fields = ()  # type: ignore[misc]

    return change


def _expressions(statement: ast.stmt) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The expressions of a statement itself, each with the node that holds it; not those of the
    statements within."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        holder = waiting.pop(0)
        for field, value in ast.iter_fields(holder):
            if field in ("annotation", "returns", "decorator_list", "args") and isinstance(
                holder, (ast.AnnAssign, ast.FunctionDef, ast.AsyncFunctionDef, ast.arg)
            ):
                continue
            if isinstance(holder, ast.ClassDef) or (
                isinstance(holder, ast.Raise) and field == "exc" and _is_message(value)
            ):
                continue
            for node in value if isinstance(value, list) else [value]:
                if isinstance(node, ast.AST) and not isinstance(
                    node, (ast.stmt, ast.ExceptHandler, ast.JoinedStr)
                ):
                    yield node, holder
                    waiting.append(node)


def _is_message(value: object) -> bool:
    return isinstance(value, ast.Call) and any(
        isinstance(each, (ast.JoinedStr, ast.Constant)) for each in value.args
    )


def _expression_changes(node: ast.AST, holder: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=ops) if not _decides(holder, node) or type(ops[0]) in _ORDERED:
            for position, op in enumerate(ops):
                yield _setting(ops, position, _COMPARED[type(op)]())
        case ast.BinOp(op=op) if type(op) in _COMPUTED:
            yield _attribute(node, "op", _COMPUTED[type(op)]())
        case ast.BoolOp(op=op):
            yield _attribute(node, "op", ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield _replacing(holder, node, node.operand)
        case ast.Constant(value=value) if not (
            isinstance(holder, ast.Expr) or value is None or value is Ellipsis
        ):
            yield _attribute(node, "value", _other(value))
        case ast.Name(id=name) if name in _CALLED:
            yield _attribute(node, "id", _CALLED[name])
        case ast.operator() if isinstance(holder, ast.AugAssign) and type(node) in _COMPUTED:
            yield _attribute(holder, "op", _COMPUTED[type(node)]())
        case _:
            pass
    if isinstance(holder, ast.Return) and not isinstance(node, (ast.Constant, ast.Compare)):
        yield _attribute(holder, "value", ast.Constant(None))
    if _decides(holder, node):
        for decided in (True, False):
            yield _attribute(holder, "test", ast.Constant(decided))


def _decides(holder: ast.AST, node: ast.AST) -> bool:
    return isinstance(holder, (ast.If, ast.IfExp, ast.While)) and holder.test is node


def _other(value: object) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, bytes):
        return value + b"X"
    return f"{value}X"


def _setting(nodes: list[ast.cmpop], position: int, node: ast.cmpop) -> Change:
    return lambda: nodes.__setitem__(position, node)


def _attribute(node: ast.AST, name: str, value: object) -> Change:
    return lambda: setattr(node, name, value)


def _replacing(holder: ast.AST, old: ast.AST, new: ast.AST) -> Change:
    def change() -> None:
        for field, value in ast.iter_fields(holder):
            if value is old:
                setattr(holder, field, new)
            elif isinstance(value, list) and old in value:
                value[value.index(old)] = new

    return change
