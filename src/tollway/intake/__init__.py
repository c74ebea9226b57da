"""How data comes in: files that an operator loads, and the demo world.

A wrong record is rejected with its reason, and never stops the others.
"""
