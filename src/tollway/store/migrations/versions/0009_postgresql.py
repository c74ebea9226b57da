"""On PostgreSQL, everybody who listens is told of every change of a version."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    if op.get_context().dialect.name != "postgresql":
        return
    op.execute("""
CREATE FUNCTION tollway_tell_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('tollway_changed', '');
    RETURN NULL;
END
$$""")
    op.execute("""
CREATE TRIGGER version_changed AFTER UPDATE ON version FOR EACH ROW
WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION tollway_tell_changed()""")
