"""Moving a whole database from the embedded engine to the shared one: copy, then compare every row.

Rows are copied in the order of their key, one chunk per transaction. So the target always has the
beginning of a table, and a move that was interrupted continues after the last row there.
"""
