"""The composition root: the parts of a gateway are made and joined here, and nowhere else.

gateway.py    one serving process: all parts, from its start to its stop
resources.py  what it has open meanwhile: databases, keys, the way to carriers
sides.py      the handlers of all operations, on real data and in the sandbox
upkeep.py     the regular work beside the calls
"""
