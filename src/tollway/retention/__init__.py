"""How long things are kept: what is older than the settings say is dropped.

What is counted or added up elsewhere is dropped together with its part there, in one transaction:
so totals stay exact, balances stay proven, and the audit finds nothing.
"""
