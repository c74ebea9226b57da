"""Keeps the place of the revision that is being written in another branch."""

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    pass
