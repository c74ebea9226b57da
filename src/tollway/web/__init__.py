"""Pages for people: the front page, the API reference, operators, callers, and shop owners.

`routes.py` has all paths on one screen. A page decides nothing itself: it calls what the command
line calls too.
"""
