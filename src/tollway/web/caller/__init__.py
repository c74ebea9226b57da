"""The pages of an account's members: balance, usage, tokens, calls with receipts, the ledger.

    pages.py      the list of all pages, and the rail
    home.py       balances, usage, what to do next
    analysis.py   product analysis: paid for, shown again; analysis_pictures.py draws it
    tokens.py     tokens and members: made, rotated, revoked, invited, removed
    records.py    the log of calls, receipts, the ledger, each as CSV too; shops that authorized

Every page reads the account of the person who is signed in; no page takes an account from the
address.
"""
