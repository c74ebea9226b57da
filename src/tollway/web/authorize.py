"""The page behind the link in a 302 answer: the owner sees who asks for what, and decides.

The link only says what is asked for. Who may approve depends on the sign-in alone, which is checked
again when the form comes back.
"""

from dataclasses import dataclass
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from tollway.consent.grants import GrantRequest, give_grant, given_since, held_grant
from tollway.consent.links import ConsentLinks
from tollway.consent.owners import Owner
from tollway.contract.operation import ConsentNeed
from tollway.ledger import LedgerError
from tollway.ledger.accounts import Account, find_account
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database
from tollway.web.account_parts import CONSENTED
from tollway.web.owner import owner_sign_in
from tollway.web.page_errors import PageError
from tollway.web.pages import Web
from tollway.web.sign_in import Visit
from tollway.web.wording import sentence

_NOT_VALID = (
    400,
    sentence("This link is not valid"),
    sentence("It is incomplete or was changed. Ask for the whole link again. Nothing was allowed."),
)
_EXPIRED = (
    400,
    sentence("This link has expired"),
    sentence("Ask the sender for a new one. Nothing was allowed."),
)
_SANDBOX = (
    400,
    sentence("This link is from the sandbox"),
    sentence(
        "It was made with a test token and concerns no real shop: there is nothing to approve."
    ),
)
_TOO_OFTEN = (
    429,
    sentence("This was approved too often today"),
    sentence("You approved and revoked it many times. Try again tomorrow. Nothing was allowed."),
)
_DAY_S = 86_400
_GIVEN_A_DAY_MAX = 20
_EXTENDED_EVERY_S = 3600


class Asked(NamedTuple):
    """Who asks for what, as a link says."""

    link: str
    grant_request: GrantRequest
    account: Account
    need: ConsentNeed


@dataclass(frozen=True)
class AuthorizePages:
    """Asks the owner, and takes the answer."""

    web: Web[Owner]
    database: Database
    links: ConsentLinks
    grant_s: int

    async def ask(self, request: Request, visit: Visit[Owner]) -> Response:
        asked = await self._asked(request.query_params.get("link", ""))
        if visit.person is None:
            return owner_sign_in(self.web, visit, link=asked.link)
        self._check_owner(visit, asked)
        now_s = self.web.now_s()
        held = await held_grant(self.database, asked.grant_request, now_s)
        return self.web.render(
            "ask.html",
            visit,
            link=asked.link,
            account=asked.account,
            asks=asked.need.asks,
            until_s=now_s + self.grant_s,
            holds=held is not None,
        )

    async def answer(self, request: Request, visit: Visit[Owner]) -> Response:
        if visit.person is None:
            # The session expired while the page was open: sign in, and see the question again. The
            # form's token expired with it, so the question comes from the address.
            return self.web.redirect(visit.view.address)
        form = await self.web.form(request, visit)
        asked = await self._asked(form.get("link", ""))
        self._check_owner(visit, asked)
        if form.get("answer") != "approve":
            return self.web.redirect("/owner?said=declined")
        if not await self._is_due(asked.grant_request):
            return self.web.redirect("/owner?said=approved")
        await give_grant(
            self.database,
            Runtime(now_s=self.web.now_s),
            asked.grant_request,
            lifetime_s=self.grant_s,
            granted_by="owner",
        )
        return self.web.redirect("/owner?said=approved")

    async def _is_due(self, wanted: GrantRequest) -> bool:
        """Whether an approval changes anything. An owner can use a link any number of times, but
        each new grant is stored for ever and invalidates the cached callers."""
        now_s = self.web.now_s()
        held = await held_grant(self.database, wanted, now_s)
        if held is not None:
            until_s = held.expires_at_s
            wanted_s = now_s + self.grant_s
            return until_s is None or abs(until_s - wanted_s) >= _EXTENDED_EVERY_S
        if await given_since(self.database, wanted, now_s - _DAY_S) >= _GIVEN_A_DAY_MAX:
            raise PageError(*_TOO_OFTEN)
        return True

    async def _asked(self, link: str) -> Asked:
        opened = self.links.read(link, self.web.now_s())
        if opened is None:
            raise PageError(*_NOT_VALID)
        if opened.is_sandbox:
            raise PageError(*_SANDBOX)
        if opened.is_expired:
            raise PageError(*_EXPIRED)
        grant_request = opened.grant_request
        found = CONSENTED.get((grant_request.owner_kind, grant_request.scope))
        try:
            account = await find_account(self.database, grant_request.account_id)
        except LedgerError:
            raise PageError(*_NOT_VALID) from None
        if found is None or account.closed_at_s is not None:
            raise PageError(*_NOT_VALID)
        return Asked(link, grant_request, account, found[0])

    @staticmethod
    def _check_owner(visit: Visit[Owner], asked: Asked) -> None:
        owner, grant_request = visit.person, asked.grant_request
        assert owner is not None
        if (owner.kind, owner.id) != (grant_request.owner_kind, grant_request.owner_id):
            raise PageError(
                403,
                "This link is for another owner",
                "It asks another shop or user, and you are signed in as {name}. If it is meant for "
                "you, sign out and sign in with the right login.",
                name=owner.name,
            )
