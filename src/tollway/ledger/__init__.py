"""Accounts, tokens, permissions and the ledger: who may call what, at which price, paid from what.

Every change of a balance is one conditional statement and one entry in the same transaction; no
code reads a balance first and writes it after. This package knows nothing of HTTP or of an
operation's content.
"""

from tollway.contract.language import SentenceError


class LedgerError(SentenceError):
    """One sentence for the operator."""
