"""Servers that take turns in slices of time, on a machine whose speed changes from minute to
minute: only slices next to each other show how one server compares with another."""

from collections.abc import Callable, Sequence

from bench.results import Measured, Round, median_of

# A round in which the rate of the first server changed by more is repeated.
CHANGE_MAX = 0.25


def take_rounds(
    first: str, others: Sequence[str], measure: Callable[[str], Measured], count: int, repeats: int
) -> list[Round]:
    """Rounds that the first server begins and ends, until enough are steady or too many were
    repeated. The steadiest are marked as kept, without a look at the others' figures."""
    found: list[Round] = []
    steady = 0
    before = measure(first)
    while steady < count and len(found) < count + repeats:
        # To and fro, so that a steady drift of the machine favours no server.
        turns = others if len(found) % 2 == 0 else others[::-1]
        measured = {name: measure(name) for name in turns}
        after = measure(first)
        slower, faster = sorted((before.calls_a_s, after.calls_a_s))
        found.append(Round({first: median_of([before, after]), **measured}, faster / slower - 1))
        steady += found[-1].change <= CHANGE_MAX
        before = after
    for each in sorted(found, key=lambda each: each.change)[count:]:
        each.is_kept = False
    return found


def medians(rounds: Sequence[Round]) -> dict[str, Measured]:
    """Of each server, over the rounds that are kept."""
    kept = [each.measured for each in rounds if each.is_kept]
    return {name: median_of([each[name] for each in kept]) for name in kept[0]}
