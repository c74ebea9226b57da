"""Pages for people. So far those of shop owners: approving, seeing and revoking grants.

    pages.py      rendering, forms, errors, and the headers that every page has
    sign_in.py    the cookie, the token of its forms, and checking passwords
    authorize.py  the page behind the link of an answer 302
    owner.py      an owner's grants and what was read under them
    password.py   the page behind a link for a new password
    routes.py     all paths on one screen
    templates/    Jinja2, every value escaped; no script anywhere

A page decides nothing about grants itself: it asks `consent`, as the command line does.
"""
