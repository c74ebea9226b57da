"""Whose data it is, and whom they let read it: shops, users, and the grants they give.

    owners.py     shops and users known to the gateway, and how they sign in
    passwords.py  hashing and checking, with argon2
    grants.py     giving, extending, revoking and listing grants
    reads.py      what was read under a grant
    standing.py   what the toll asks on every call, kept in memory
    signing.py    the gateway's secret, and what is signed with it
    links.py      the links behind which an owner approves

This room knows nothing of HTTP: the pages are in `console`, the refusals in `toll`.
"""
