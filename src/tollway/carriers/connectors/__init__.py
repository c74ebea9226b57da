"""How a carrier is asked for a waybill number.

    connector.py        what every protocol implements, and the errors that say what was done
    protocols.py        the built-in protocol, and those of installed packages
    cainiao_link.py     built in: Cainiao's LINK gateway
    signed_form.py      built in: signed forms over HTTP, with a look-up
    breaker.py          keeps a carrier that does not answer from slowing down all others
    http_exchange.py    one HTTP message under a deadline, and whether any of it was sent
    remotes.py          the connectors of one process, with the checks around every protocol

A number is asked for once. The outcome of a message without an answer is learned by a look-up at
the carrier, and never by sending it again.
"""
