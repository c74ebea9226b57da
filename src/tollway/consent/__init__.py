"""Who owns data, and who may read it: shops, users, and the grants they give.

    owners.py       shops and users known to the gateway, and their passwords
    grants.py       giving, extending, revoking and listing grants, and the reads under them
    grant_cache.py  the grants that calls need, cached in memory
    links.py        the signed links with which an owner approves, or chooses a password
    erasures.py     requests to erase the receivers of a shop, and what each erased

This package knows nothing of HTTP: the pages are in `web`, the refusals in `pipeline`.
"""
