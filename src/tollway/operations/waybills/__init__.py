"""Waybill issuing: a number of a carrier and a label, once per order."""

from tollway.carriers.reconciling import Reconciler
from tollway.operations.demo_data import DemoPart
from tollway.operations.subject import MoreCall, Services, Subject
from tollway.operations.waybills.demo import fill
from tollway.operations.waybills.handler import WaybillHandler
from tollway.operations.waybills.more_calls import WAYBILL_BATCH
from tollway.operations.waybills.operation import WAYBILLS
from tollway.operations.waybills.remote_issue import RemoteIssuer


def _handler(services: Services) -> WaybillHandler:
    vault, runtime = services.vault, services.runtime
    reconciler = Reconciler(services.database, services.remotes, vault, runtime)
    issuer = RemoteIssuer(services.remotes, reconciler, vault, runtime)
    return WaybillHandler(
        services.database,
        issuer,
        vault,
        runtime,
        services.public_address,
        services.take_numbers,
    )


SUBJECT = Subject(
    operation=WAYBILLS,
    make_handler=_handler,
    demo=DemoPart(fill),
    more_calls=(MoreCall(WAYBILL_BATCH),),
)
