"""The composition root: every part of a gateway is made and wired here, and nowhere else.

Beside the server are the probes, `/oauth/token`, and the work that goes on beside the traffic.
"""
