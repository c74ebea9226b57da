"""The gateway against a model of it: whatever is answered must be what the interface says.

`expected/` is the model, written from the interface and its documentation. It imports nothing but
the standard library, so it can share no mistake with the gateway. The other modules start a real
gateway, send it random calls, pushes and commands, and compare every answer with the model.
"""
