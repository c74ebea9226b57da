"""What can be wrong with an operator's wish."""


class CarrierError(Exception):
    """A carrier, pool or waybill cannot be as asked; the text is one sentence for the operator."""
