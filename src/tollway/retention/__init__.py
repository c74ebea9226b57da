"""Retention: rows that are older than the settings allow are dropped.

Rows that are counted or added up elsewhere are dropped together with their count or into an
archived sum, in one transaction: so totals stay exact, and the audit finds nothing.
"""
