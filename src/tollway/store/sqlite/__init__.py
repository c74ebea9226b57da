"""The embedded engine: SQLite through apsw, one file, one serving process, one writer thread."""
