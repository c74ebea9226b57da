"""The operations a caller pays for, one room each, with the same file names in every room.

    descriptor.py  what it is called, where it is found, what it costs, which codes it answers
    request.py     the fields a caller sends
    response.py    the fields an answer has
    handler.py     the work
    reading.py     the queries behind it, where no room below has them

A room never imports another, nor the toll, nor HTTP, nor a database driver.
"""
