"""The file of a demo world, beside its database: the tokens, and what to try with them.

This module loads no operations, so a gateway without a demo world starts without that code.
"""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tollway.settings import Settings
from tollway.store.database import StoreError
from tollway.store.durable_files import make_private, replace_private
from tollway.store.open import is_shared, key_path, sqlite_path


class DemoWorld(msgspec.Struct, frozen=True):
    """Everything needed to produce each answer of the specification by hand."""

    base_url: str
    # The base address of its pictures and links.
    site: str
    token: str
    test_token: str
    token_without_permission: str
    token_without_credits: str
    revoked_token: str
    product_id: str
    query_date: str
    sid: str
    coupon_start_time: str
    coupon_end_time: str
    platform_user_id: int
    platform_user_id_unauthorized: int
    site_id: int
    adzone_id: int
    owner_id: str
    owner_id_unauthorized: str
    owner_login: str
    owner_password: str
    member_login: str
    member_password: str
    shop_code: str
    wp_code: str
    wp_code_out_of_numbers: str
    push_source: str
    push_secret: str


def demo_file(database_path: str) -> Path:
    return Path(f"{database_path}.demo.json")


def world_path(settings: Settings) -> str:
    """The file next to which the file of the demo world is."""
    if is_shared(settings.database):
        return str(key_path(settings.database, settings.key_file))
    return sqlite_path(settings.database)


def curl_line(world: DemoWorld, address: str) -> str:
    """A command that makes a paid call."""
    query = f"product_id={world.product_id}&query_date={world.query_date}"
    return (
        f"curl -H 'Authorization: Bearer {world.token}' "
        f"'{address}/papi/tool/accounts/goods-analysis?{query}'"
    )


def saved_world(database_path: str) -> DemoWorld | None:
    """The existing world, if there is one."""
    path = demo_file(database_path)
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=DemoWorld)
    except msgspec.DecodeError:
        raise StoreError(
            f"The demo world of {database_path} was made by another version, or is damaged: remove "
            f"that file and {path} to have a new one made."
        ) from None


def note_address(database_path: str, address: str) -> None:
    """Saves where the world is served, if there is one, for `tollway demo` to show."""
    made = saved_world(database_path)
    if made is not None and made.base_url != address:
        save_world(demo_file(database_path), msgspec.structs.replace(made, base_url=address))


@contextmanager
def making_alone(database_path: str, on_wait: Callable[[], None]) -> Iterator[None]:
    """A lock, so that one process at a time creates or continues the world of a database; another
    waits, and then finds it done. The system releases the lock of a process that dies."""
    with Path(f"{database_path}.demo.lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def save_world(path: Path, made: DemoWorld) -> None:
    """Saves the file atomically: its tokens are stored nowhere else."""
    content = msgspec.json.format(msgspec.json.encode(made))
    (replace_private if path.exists() else make_private)(path, content)
