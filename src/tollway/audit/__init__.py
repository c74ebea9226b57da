"""The audit: does everything that the tables say twice say the same? It reads and never changes.

A new check is one `Check` in the file of its subject, listed in `checks.py`; nothing else need know
of it.
"""
