"""Kept free for a migration of another branch, which replaces this file."""

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Nothing changes here."""
