"""Kept free for a migration of another branch, which replaces this file."""

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Nothing changes here."""
