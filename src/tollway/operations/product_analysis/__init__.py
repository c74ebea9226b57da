"""Product analysis: a product's visitors, buyers and orders on one day, and 30 days back."""

from tollway.intake.loading import RecordKind
from tollway.operations.demo_data import DemoPart
from tollway.operations.product_analysis.demo import fill, world_records
from tollway.operations.product_analysis.handler import ProductAnalysisHandler
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.operations.product_analysis.ready_days import remake_all
from tollway.operations.product_analysis.records import RECORD_TYPES
from tollway.operations.product_analysis.storage import FigureLoader
from tollway.operations.subject import Subject

SUBJECT = Subject(
    operation=PRODUCT_ANALYSIS,
    make_handler=lambda services: ProductAnalysisHandler(
        services.reading, services.versions, services.today
    ),
    records=RecordKind(
        name="product-figures",
        help="Load products and their daily figures; loading a file again changes nothing.",
        make_loader=lambda _: FigureLoader(),
        record_types=RECORD_TYPES,
    ),
    remake=remake_all,
    demo=DemoPart(fill, world_records),
)
