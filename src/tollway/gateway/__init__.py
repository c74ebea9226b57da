"""The composition root: every part of a gateway is made and wired here, and nowhere else.

gateway.py        one serving process: all parts, from start to stop
resources.py      what it has open: databases, keys, connections to carriers, live and sandbox
upkeep.py         the background work
retention.py      drops rows that are older than the settings allow
worker.py         the ASGI application of one worker process
worker_group.py   what the workers of one gateway share
server.py         the HTTP server: starts, replaces and drains the workers
probes.py         health, readiness, metrics
oauth.py          `POST /oauth/token`; token_request.py reads its form
openapi.py        the description at /openapi.json
"""
