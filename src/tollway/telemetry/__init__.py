"""What a running gateway reports about itself: metrics and logs.

Neither ever carries a token, a receiver's data or a request's content.
"""
