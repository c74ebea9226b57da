"""Pages for people: the front page, the API reference, operators, callers, and shop owners.

    routes.py     all paths on one screen
    area.py       how the pages of an area are declared
    blocks.py     what pages are made of, declared as data; charts.py draws on the server
    pages.py      rendering, forms, errors, and the headers that every page has
    sign_in.py    the cookie, the token of its forms, and checking passwords
    entrance.py   signing in and out of the areas of operators and members, also by link
    wording.py    the sentences in both languages
    operator/     the operator's pages
    caller/       the pages of an account's members
    owner.py      an owner's grants and what was read under them; choosing a new password
    authorize.py  the page behind the link of an answer 302
    templates/    Jinja2, every value escaped

A page decides nothing itself: it calls what the command line calls too.
"""
