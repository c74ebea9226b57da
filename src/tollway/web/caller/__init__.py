"""The pages of an account's members: balance, usage, tokens, calls with receipts, the ledger.

`pages.py` lists them. Every page reads the account of the person who is signed in; no page takes an
account from the address.
"""
