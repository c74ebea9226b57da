"""Cancelling at the carrier what the carrier has issued."""

from tollway.carriers.carriers import known_carrier
from tollway.carriers.connectors.connector import ConnectorError, Declined
from tollway.carriers.connectors.remotes import Remotes
from tollway.carriers.errors import CarrierError
from tollway.carriers.links import find_link
from tollway.carriers.pending import ref_of
from tollway.carriers.waybills import Waybill
from tollway.store.database import Reader
from tollway.store.sealing import Sealer


async def tell_carrier(reader: Reader, remotes: Remotes, sealer: Sealer, of: Waybill) -> None:
    """Has a remote carrier cancel its waybill; one from a pool is known to nobody else.

    Asking twice is harmless, so if this is done and the rest is not, it can all be done again.
    """
    if of.hold_id is None or of.number is None:
        return
    carrier = await known_carrier(reader, of.wp_code)
    opened = await find_link(reader, sealer, of.wp_code)
    if opened is None:
        raise CarrierError(
            f"Waybill {of.number} was issued by carrier {of.wp_code} itself, which is no longer "
            "connected: connect it again to cancel there."
        )
    try:
        answer = await remotes.connector(carrier, opened).cancel(ref_of(of), of.number)
    except ConnectorError as error:
        raise CarrierError(f"Waybill {of.number} is not cancelled: {error} Try again.") from None
    if isinstance(answer, Declined):
        raise CarrierError(f"Carrier {of.wp_code} does not cancel {of.number}: {answer.reason}")
