"""What the ledger says when it cannot do what an operator asked."""


class LedgerError(Exception):
    """One sentence for the operator."""
