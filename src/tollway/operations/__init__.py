"""What callers call. The paid operations are one package each, with the same file names in all.

    __init__.py   the subject: what the rest of the gateway learns about it
    operation.py  the descriptor, the request and the response, in the spellings of the wire
    handler.py    the work
    queries.py    what the handler reads
    schema.py     its tables
    records.py    what is imported or pushed, checked
    storage.py    how records are stored, how long, and how old ones are removed
    counts.py     how many rows each span of time has, where pages need it
    demo.py       its part of the demo world

`catalogue.py` lists them all. `account_api/` has what a caller may see and change of its own
account, free of charge. No subject imports another, nor the pipeline, nor a database driver.
"""
