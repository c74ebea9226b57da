"""Carriers, the numbers they gave out to be used, and the waybills issued with them.

    formats.py   what a carrier's numbers look like
    areas.py     where a carrier delivers
    carriers.py  the carriers an operator has added
    pools.py     the numbers an operator has loaded; each is taken once and never again
    links.py     the carriers that give their numbers themselves, and how to reach them
    connectors/  how a number is had, from a pool or from a carrier
    waybills.py  what was issued, under its natural key
    printing.py  the print data of a waybill, signed
    label/       the same as a picture, a PDF or a printer's commands

Knows neither callers nor prices: whether a waybill is paid is decided above.
"""
