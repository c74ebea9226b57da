"""A made-up migration after the newest one, which makes a test's process the next version."""

import shutil
from pathlib import Path

import pytest

from tollway.store import migrate as migrating
from tollway.store.migrate import newest_revision

NEXT = "9001"
NEW_TABLE = 'op.create_table("novelty", sa.Column("id", sa.Integer, primary_key=True))'
_MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{before}"
{declares}


def upgrade() -> None:
    {changes}
"""


def become_next_version(
    patch: pytest.MonkeyPatch, folder: Path, *, declares: str = "", changes: str = NEW_TABLE
) -> None:
    """From now on this process, but none that it starts, has the migration NEXT as well."""
    shutil.copytree(migrating._LOCATION, folder)
    text = _MIGRATION.format(
        revision=NEXT, before=newest_revision(), declares=declares, changes=changes
    )
    (folder / "versions" / f"{NEXT}_next.py").write_text(text, encoding="utf-8")
    patch.setattr(migrating, "_LOCATION", str(folder))
