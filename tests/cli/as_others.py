"""`python -m tests.cli.as_others ARGUMENTS`: `tollway` as a user who may do only what the modes of
files say. Root may read and write anywhere, unless it gives up these rights."""

import ctypes
import sys

from tollway.__main__ import main

_VERSION_3 = 0x20080522
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2


def _give_up_rights() -> None:
    """As of now; other users do not have them."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    # Of the first 32 rights: which are in force, which may be, and which are inherited.
    rights = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, rights) == 0, ctypes.get_errno()
    for each in range(3):
        rights[each] &= ~(1 << _DAC_OVERRIDE | 1 << _DAC_READ_SEARCH)
    assert libc.capset(header, rights) == 0, ctypes.get_errno()


if __name__ == "__main__":
    _give_up_rights()
    main(sys.argv[1:])
