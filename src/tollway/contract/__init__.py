"""What the gateway promises on the wire: reasons, envelope, fields, operation descriptors.

Pure: nothing in this room reads a file, a socket, a clock or a database, and it imports no other
room. Everything else may import it.
"""
