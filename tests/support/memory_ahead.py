"""Has all that is loaded lie side by side in memory.

Python takes memory in pieces of a mebibyte, and libraries that are loaded come to lie between them.
If it has taken most of what it will need before it loads anything, the kernel can keep more of it
in large pages, and a fork has less to copy.
"""

import sys

_PIECE = 2**20
# The largest object that is put into such a piece.
_OBJECT = 512
# Somewhat fewer than all that is loaded takes: a piece that stays empty is copied for nothing.
_NEEDED = 56
_kept: list[bytes] = []


def take_memory() -> None:
    """Fills that many pieces, and keeps a few objects in each, so that it is not given back."""
    content = _OBJECT - sys.getsizeof(b"")
    in_a_piece = _PIECE // _OBJECT
    filling = [bytes(content) for _ in range(_NEEDED * in_a_piece)]
    _kept.extend(filling[:: in_a_piece // 4])
