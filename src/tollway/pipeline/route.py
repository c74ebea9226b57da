"""Stage: which operation is called."""

from collections.abc import Iterable

from tollway.contract.operation import Operation
from tollway.contract.reasons import Reason, Refusal
from tollway.pipeline.call import Call


class Route:
    """Finds the operation of a method and an exact path; no other spelling of the path matches."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        # Each with the name that it is charged under.
        self._by_path = {each.path: (each, each.charged_as) for each in operations}

    def __call__(self, call: Call) -> None:
        found = self._by_path.get(call.path)
        if found is None:
            raise Refusal(Reason.PATH_UNKNOWN)
        operation, name = found
        if call.method != operation.method:
            raise Refusal(Reason.METHOD_WRONG, allowed=operation.method)
        call.operation, call.operation_name = operation, name
