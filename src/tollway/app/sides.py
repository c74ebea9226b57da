"""The two sides of a gateway, live and sandbox: the same handlers, each on data of its own."""

from tollway.app.resources import Resources
from tollway.carriers.reconciling import Reconciler
from tollway.carriers.shop_codes import ShopCodes
from tollway.carriers.vault import Vault
from tollway.consent.standing import Standings
from tollway.ledger.identity import World
from tollway.ledger.settlement import Settler
from tollway.operations.coupon_claims.descriptor import COUPON_CLAIMS
from tollway.operations.coupon_claims.handler import CouponClaimsHandler
from tollway.operations.handling import Handler
from tollway.operations.orders.descriptor import ORDERS
from tollway.operations.orders.handler import OrdersHandler
from tollway.operations.product_analysis.descriptor import PRODUCT_ANALYSIS
from tollway.operations.product_analysis.handler import ProductAnalysisHandler
from tollway.operations.promotion_material.descriptor import PROMOTION_MATERIAL
from tollway.operations.promotion_material.handler import PromotionMaterialHandler
from tollway.operations.waybills.asking import Asking
from tollway.operations.waybills.descriptor import WAYBILLS
from tollway.operations.waybills.handler import WaybillHandler
from tollway.settings import Settings
from tollway.store.database import Database
from tollway.store.versions import Versions
from tollway.templates import TEMPLATES_PATH
from tollway.toll.order import Side
from tollway.toll.recall import Memory


def live_side(settings: Settings, resources: Resources, settler: Settler) -> Side:
    database, reading = resources.database, resources.reading
    versions, vault = resources.versions, resources.vault
    return _side(settings, resources, database, reading, versions, vault, settler)


def sandbox_side(settings: Settings, resources: Resources) -> Side:
    database, vault = resources.sandbox.database, resources.sandbox.vault
    settler = resources.sandbox.settler(settings.call_timeout_s)
    return _side(settings, resources, database, database, Versions(database), vault, settler)


def _side(
    settings: Settings,
    resources: Resources,
    database: Database,
    reading: Database,
    versions: Versions,
    vault: Vault,
    settler: Settler,
) -> Side:
    world, zone, today = World(), settings.zone, resources.calendar.today
    reconciler = Reconciler(database, resources.remotes, vault, world)
    asking = Asking(resources.remotes, reconciler, vault, world)
    templates_url = f"{settings.public_address}{TEMPLATES_PATH}"
    handlers: dict[str, Handler] = {
        PRODUCT_ANALYSIS.name: ProductAnalysisHandler(reading, versions, today),
        COUPON_CLAIMS.name: CouponClaimsHandler(reading, zone),
        PROMOTION_MATERIAL.name: PromotionMaterialHandler(reading),
        WAYBILLS.name: WaybillHandler(ShopCodes(database), asking, vault, world, templates_url),
        ORDERS.name: OrdersHandler(reading, vault.sealer, zone),
    }
    memory = Memory(database, vault.sealer, resources.fingerprinter)
    return Side(handlers, Standings(database, versions), settler, memory)
