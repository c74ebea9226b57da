"""From a database URL to an open database."""

from pathlib import Path
from urllib.parse import urlsplit

from tollway.store.database import StoreError
from tollway.store.sealing import Sealer, load_sealer
from tollway.store.sqlite.database import SqliteDatabase
from tollway.telemetry.metrics import Metrics

_SQLITE_PREFIX = "sqlite:///"


def sqlite_path(url: str) -> str:
    """The file behind a database URL."""
    if not url.startswith(_SQLITE_PREFIX):
        scheme = urlsplit(url).scheme or "nothing"
        raise StoreError(
            f"The database URL starts with {scheme}: this version knows sqlite:///FILE."
        )
    path = url.removeprefix(_SQLITE_PREFIX)
    if not path:
        raise StoreError("The database URL names no file: write sqlite:///FILE.")
    return path


def beside(url: str, ending: str) -> Path:
    """A file that belongs to a database and is kept beside it."""
    return Path(sqlite_path(url) + ending)


def key_path(url: str, key_file: str) -> Path:
    """The key file of a database: beside it, unless the settings put it elsewhere."""
    return Path(key_file) if key_file else beside(url, ".keys")


def open_database(url: str, metrics: Metrics, busy_timeout_s: float = 10.0) -> SqliteDatabase:
    path = sqlite_path(url)
    if not Path(path).resolve().parent.is_dir():
        raise StoreError(f"The folder of {path} does not exist: make it first.")
    return SqliteDatabase(path, busy_timeout_s, metrics)


def open_sealer(url: str, key_file: str) -> Sealer:
    return load_sealer(key_path(url, key_file))
