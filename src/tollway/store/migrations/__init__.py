"""Alembic's migrations. They only write SQL text, which the engine then runs itself."""
