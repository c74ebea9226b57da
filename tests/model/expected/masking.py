"""What of a receiver, and of what was remarked, an answer shows."""

import re

# A blank before a number goes with it.
_NUMBER = re.compile(" ?[0-9]+")


def shown_receiver(name: str, phone: str, address: str) -> dict[str, str]:
    """The masked fields: of a name the first character stays, of a phone its first three and last
    four digits, of an address everything but its numbers."""
    street = _NUMBER.sub("***", address)
    return {
        "receiver_name": f"{name[:1]}**",
        "receiver_phone": f"{phone[:3]}****{phone[-4:]}",
        "receiver_address": street,
        "address": street,
    }
