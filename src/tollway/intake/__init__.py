"""How data comes in: files that an operator loads, and the demo world.

A record that is wrong is set aside with its reason, and never stops the good ones.
"""
