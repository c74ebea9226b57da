"""Waybills without fingerprints.

Gateways of the schema before it read and write the column, so none may serve meanwhile.
"""

from alembic import op

from tollway.store.migrations import changes

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    for text in changes(op.get_context().dialect.name, revision):
        op.execute(text.rstrip().removesuffix(";"))
