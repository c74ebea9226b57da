"""Nothing: holds the place of a migration that is made elsewhere."""

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    pass
