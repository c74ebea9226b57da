"""Carriers, the numbers they gave out to be used, and the waybills issued with them.

formats.py      what a carrier's numbers look like
areas.py        where a carrier delivers
carriers.py     the carriers an operator has added
pools.py        the numbers an operator has loaded; each is taken once and never again
links.py        the carriers that give their numbers themselves, and how to reach them
connectors/     how a number is had, from a pool or from a carrier
waybills.py     what was asked for and issued, under its natural key
pending.py      a waybill that waits for its carrier: begun with a hold, ended with its capture
reconciling.py  settles what is pending by asking the carrier
cancelling.py   cancels at the carrier what the carrier has issued
printing.py     the print data of a waybill, signed
label/          the same as a picture, a PDF or a printer's commands
"""


class CarrierError(Exception):
    """A carrier, pool or waybill cannot be as asked; the text is one sentence for the operator."""
