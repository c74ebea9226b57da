"""The audit: do tables that record the same fact agree? It reads and never changes.

A new check is one `Check` in the file of its subject, listed in `report.py`. The audit shares no
code with the writers that it checks.
"""
