"""People who sign in: shop owners, operators, and members of accounts.

    people.py          operators and members of accounts: found, listed, removed
    passwords.py       hashing and checking passwords
    sessions.py        sessions in the database: started, recognised, ended
    second_factor.py   the code that a person enters after the password
    sign_in_links.py   links that sign a person in once: invitations, forgotten passwords
    sign_in_limits.py  how often a login may be tried, counted in the database

It treats all kinds of people alike: a person is a kind and an id, such as `shop` and `1001`.
"""
