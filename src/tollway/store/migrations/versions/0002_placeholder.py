"""Nothing: holds the place of a migration that is made elsewhere."""

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    pass
