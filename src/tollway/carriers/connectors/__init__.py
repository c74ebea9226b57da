"""How a carrier is asked for a waybill number.

    connector.py        what every protocol implements, and the errors that say what was done
    protocols.py        the built-in protocol, and those of installed packages
    cainiao_link.py     built in: Cainiao's LINK gateway
    signed_form.py      built in: signed forms over HTTP, with a look-up
    breaker.py          keeps a carrier that does not answer from slowing down all others
    http_exchange.py    one HTTP message under a deadline, and whether any of it was sent
    remote_carriers.py  the connectors of one process, with the checks around every protocol

The gateway asks for a number once. If there is no answer, a look-up at the carrier shows what
became of the message; it is never sent again.
"""
