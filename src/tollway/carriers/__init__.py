"""Carriers, their numbers, and the waybills issued with them.

carriers.py          the carriers an operator has added, and where each delivers
number_formats.py    what a carrier's numbers look like
pools.py             the numbers an operator has loaded; each is taken once and never again
pool_levels.py       how many numbers each pool has left, and when it runs out
carrier_links.py     the carriers that issue their own numbers, and how to reach them
sorting_codes.py     the sorting codes of carriers that do not send them, by the receiver's place
divisions.py         the provinces, cities and districts that exist
connectors/          the protocols of those carriers
waybills.py          what was asked for and issued, under its natural key
pending_waybills.py  a waybill that waits for its carrier: begun with a hold, ended by its capture
reconciling.py       settles what is pending by asking the carrier, and cancels there
receiver_changes.py  changes the receiver of a waybill, until its label is printed
vault.py             the keys that seal a waybill and tell requests apart
labels/              the print data of a waybill, and its label as picture, PDF or printer commands
"""

from tollway.contract.language import SentenceError


class CarrierError(SentenceError):
    """A carrier, pool or waybill cannot be as asked; the text is for the operator."""
