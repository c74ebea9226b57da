"""Promotion material: the benefits on display for a promotion id, with links of the user's slot."""

from tollway.intake.loading import RecordKind
from tollway.operations.demo_data import DemoPart
from tollway.operations.promotion_material.demo import fill
from tollway.operations.promotion_material.handler import PromotionMaterialHandler
from tollway.operations.promotion_material.operation import PROMOTION_MATERIAL
from tollway.operations.promotion_material.records import MaterialRecord, ready_material
from tollway.operations.promotion_material.schema import promotion_material
from tollway.operations.promotion_material.storage import MaterialLoader, record_of
from tollway.operations.remaking import ReadyRecords
from tollway.operations.subject import Subject
from tollway.store.cache_versions import material_changed
from tollway.store.database import Row
from tollway.store.sealing import Sealer


def _ready(row: Row, _: Sealer) -> tuple[bytes]:
    return (ready_material(record_of(row)),)


SUBJECT = Subject(
    operation=PROMOTION_MATERIAL,
    make_handler=lambda services: PromotionMaterialHandler(services.reading, services.versions),
    records=RecordKind(
        name="promotion-material",
        help="Load promotion material with its benefits and items; a later record replaces an "
        "earlier.",
        make_loader=lambda _: MaterialLoader(),
        record_types=(MaterialRecord,),
    ),
    ready=ReadyRecords(promotion_material, _ready, changed=material_changed),
    demo=DemoPart(fill),
)
