"""The audit: do tables that record the same fact agree? It reads and never changes.

A new check is one `Check` in the file of its subject, or one `check_each` if each row that its
query finds is a breach, listed in `report.py`. The audit shares no code with the writers that it
checks.
"""
