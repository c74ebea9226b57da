"""What a gateway must answer, computed by brute force from everything that was sent to it.

Nothing but the standard library is imported here; a test holds that.
"""
