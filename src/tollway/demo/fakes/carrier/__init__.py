"""A carrier to try Tollway with: a program of its own that misbehaves on request.

    __main__.py      `python -m tollway.demo.fakes.carrier`
    server.py        HTTP/1.1, so small that a connection can be cut at an exact point
    faults.py        how it misbehaves, and /control and /journal, outside the protocol
    waybill_book.py  what a carrier does, and the journal of it
    signed_form.py   signed forms, written apart from the gateway's, so that one checks the other

It gives a number for every message that asks for one, also when it was asked the same before: so
its journal shows any double. It imports nothing of the gateway.
"""
