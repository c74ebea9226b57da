"""How a marketplace pushes data in: signed, stored durably, and only then acknowledged.

    signature.py  is it signed by the source it names, and just now
    records.py    from the bytes of a push to records and rejects
    routes.py     the HTTP around it

Outside of the toll: a push costs nothing, and its answers are plain HTTP.
"""
