"""Running a gateway under the HTTP server.

server.py       the main process: sets the server up, starts the workers, drains, stops
application.py  what runs in each worker: the gateway, and its regular work beside the calls
"""
