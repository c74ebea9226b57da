"""How data comes in: files that an operator loads, and pushes.

A wrong record is rejected with its reason, and never stops the others.
"""
