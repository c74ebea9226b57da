"""What the gateway promises on the wire: reasons, envelope, fields, operation descriptors.

Pure: nothing in this package reads a file, a socket, a clock or a database, and it imports no
other package of the gateway. Every other package may import it.
"""
