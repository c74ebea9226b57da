"""Why a call is refused."""


class RefusedError(Exception):
    """The call ends here, with a code and a reason of the interface's table."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def invalid() -> RefusedError:
    return RefusedError(100, "PARAMETER_INVALID")
