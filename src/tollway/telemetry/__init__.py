"""What the gateway tells about itself while it runs: metrics and logs.

Neither ever carries a token, a receiver's data or a request's content.
"""
