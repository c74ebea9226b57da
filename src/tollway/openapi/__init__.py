"""The OpenAPI description: the operations, made from their descriptors, their receipts, and where
clients obtain tokens.

document.py  the whole of it
paths.py     what can be asked for, each with its parameters
answers.py   the envelope around every answer, with an example for every reason
"""
