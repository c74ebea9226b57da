"""SQLite's tables of functions, as `sqlite3.h` has them: what it calls to open and use a file."""

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_int, c_int64, c_void_p

Pointer = c_void_p
_INT64_OUT = POINTER(c_int64)
_POINTER_OUT = POINTER(c_void_p)


def _function(*arguments: type) -> type:
    return ctypes.CFUNCTYPE(c_int, *arguments)


# Of a file. The first argument of each is the file.
FUNCTIONS = {
    "xClose": _function(Pointer),
    "xRead": _function(Pointer, c_void_p, c_int, c_int64),
    "xWrite": _function(Pointer, c_void_p, c_int, c_int64),
    "xTruncate": _function(Pointer, c_int64),
    "xSync": _function(Pointer, c_int),
    "xFileSize": _function(Pointer, _INT64_OUT),
    "xLock": _function(Pointer, c_int),
    "xUnlock": _function(Pointer, c_int),
    "xCheckReservedLock": _function(Pointer, POINTER(c_int)),
    "xFileControl": _function(Pointer, c_int, c_void_p),
    "xSectorSize": _function(Pointer),
    "xDeviceCharacteristics": _function(Pointer),
    "xShmMap": _function(Pointer, c_int, c_int, c_int, _POINTER_OUT),
    "xShmLock": _function(Pointer, c_int, c_int, c_int),
    "xShmBarrier": ctypes.CFUNCTYPE(None, Pointer),
    "xShmUnmap": _function(Pointer, c_int),
    "xFetch": _function(Pointer, c_int64, c_int, _POINTER_OUT),
    "xUnfetch": _function(Pointer, c_int64, c_void_p),
}
# The name by its address, since the file keeps it.
XOPEN = _function(Pointer, c_void_p, Pointer, c_int, POINTER(c_int))
XSLEEP = _function(Pointer, c_int)


class Methods(Structure):
    _fields_ = (("iVersion", c_int), *FUNCTIONS.items())  # type: ignore[assignment]


class File(Structure):
    _fields_ = (("methods", POINTER(Methods)),)


class Vfs(Structure):
    _fields_ = (
        ("iVersion", c_int),
        ("szOsFile", c_int),
        ("mxPathname", c_int),
        ("pNext", c_void_p),
        ("zName", c_char_p),
        ("pAppData", c_void_p),
        ("xOpen", XOPEN),
        ("xDelete", c_void_p),
        ("xAccess", c_void_p),
        ("xFullPathname", c_void_p),
        ("xDlOpen", c_void_p),
        ("xDlError", c_void_p),
        ("xDlSym", c_void_p),
        ("xDlClose", c_void_p),
        ("xRandomness", c_void_p),
        ("xSleep", XSLEEP),
    )
