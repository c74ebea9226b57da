"""A whole database from the embedded engine to the shared one: copied, then compared row by row.

Rows go in the order of their key, a chunk to a transaction. So what the target has of a table is
always its beginning, and a move that was broken off goes on after the last row that is there.
"""
