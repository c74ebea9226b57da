"""The front page: what this gateway sells, whether it is ready, and where people sign in."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import Response

from tollway.consent.owners import Owner
from tollway.ledger.permissions import list_price, operation_states
from tollway.operations.catalogue import OPERATIONS
from tollway.store.database import Database
from tollway.web.blocks import Link, Notice
from tollway.web.pages import OPEN_FRAME, Web
from tollway.web.reference_parts import page_of
from tollway.web.sign_in import Visit
from tollway.web.wording import amount

# The page that a browser gets for an unknown path.
MISSING_PATH = "/missing"


@dataclass(frozen=True)
class FrontPage:
    web: Web[Owner]
    database: Database
    is_ready: Callable[[], Awaitable[bool]]
    # How to sign in to the demo world, if only this machine can reach the gateway.
    demo: Mapping[str, str] | None

    async def show(self, _: Request, visit: Visit[Owner]) -> Response:
        return self.web.render(
            "front.html",
            visit,
            frame=OPEN_FRAME,
            signed_in="",
            offers=await self._offers(visit),
            is_ready=await self.is_ready(),
            demo=self.demo,
        )

    async def _offers(self, visit: Visit[Owner]) -> list[dict[str, object]]:
        say, states = visit.view.say, await operation_states(self.database)
        closed = {name for name, state in states.items() if state.is_closed}
        return [
            {
                "title": say(each.title),
                "page": page_of(each),
                "address": f"{each.method} {each.path}",
                "price": amount(say, each.balance_unit, list_price(each, states)),
                "is_open": each.name not in closed,
            }
            for each in OPERATIONS
        ]

    async def missing(self, _: Request, visit: Visit[Owner]) -> Response:
        say = visit.view.say
        text = say("Check the address, or go on from the front page.")
        notice = Notice(text, "soon", Link(say("Front page"), "/"))
        # The page belongs to no area, whether its reader is signed in or not.
        anyone = replace(visit, person=None)
        return self.web.page(anyone, say("There is no such page"), [notice], status=404)
