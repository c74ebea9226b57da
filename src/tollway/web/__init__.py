"""Pages for people. So far those of shop owners: approving, seeing and revoking grants.

    web.py        rendering, forms, errors, and the headers that every page has
    session.py    the signed cookie: who is signed in, and the token of its forms
    sign_in.py    checking passwords, a few attempts at a time
    authorize.py  the page behind the link of an answer 302
    owner.py      an owner's grants and what was read under them
    routes.py     all paths on one screen
    templates/    Jinja2, every value escaped; no script anywhere

A page decides nothing about grants itself: it asks `consent`, as the command line does.
"""
