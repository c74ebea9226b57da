"""How a waybill number is had: from a pool of this gateway, or from the carrier itself.

    connector.py      the door: what both kinds offer, and how an outcome can be uncertain
    pool.py           a pool, inside one transaction
    cainiao.py        a carrier that is asked over HTTP in Cainiao's LINK form
    cainiao_wire.py   that form: the signed messages and their answers
    exchange.py       one HTTP message under a deadline, and whether any of it was sent
    breaker.py        keeps a carrier that does not answer from costing others anything
    remotes.py        the connectors of one process

A number is asked for once. What became of a message that went unanswered is found out by asking the
carrier about it, and never by sending it again.
"""
