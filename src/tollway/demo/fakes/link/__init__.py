"""A stand-in for Cainiao's LINK gateway, written from what public clients of it show, and not from
this project's connector: it refuses what the real one would refuse.

    messages.py  what a message must look like, and the codes of one that does not
    gateway.py   the numbers it issued, its answers in JSON or XML, and its faults
    __main__.py  starts it: `python -m tollway.demo.fakes.link`

It has no look-up, as LINK has none. `/control` takes a fault, `/journal` shows what was done.
"""
