"""Kept free for a migration of another branch, which replaces this file."""

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Nothing changes here."""
