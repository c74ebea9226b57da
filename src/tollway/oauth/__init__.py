"""How a client obtains a token: OAuth 2 client credentials.

    asking.py  from an HTTP request to the id and secret that were sent
    issuing.py from an id and a secret to a token
    routes.py  the HTTP around it

Outside of the toll: it costs nothing, and its answers have the shape that OAuth gives them.
"""
