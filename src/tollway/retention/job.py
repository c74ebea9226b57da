"""One node at a time drops what is old."""

# Any number, the same for all nodes: whoever drops something holds it.
JOB = 7012605120
