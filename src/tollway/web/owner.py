"""An owner's own pages: signing in and out, every grant, every read made under one, revoking."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from tollway.consent.grants import (
    Grant,
    Read,
    find_grant,
    grants_of_owner,
    newest_reads,
    revoke_grant,
)
from tollway.consent.links import AUTHORIZE_PATH
from tollway.consent.owners import Owner
from tollway.contract.operation import ConsentNeed
from tollway.ledger import LedgerError
from tollway.ledger.accounts import find_account
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database
from tollway.web.pages import Frame, PageError, Web
from tollway.web.sign_in import (
    AT_ONCE,
    TOO_MANY,
    WRONG,
    Doorkeeper,
    Sessions,
    TooManyAtOnceError,
    TooManyAttemptsError,
    Visit,
)
from tollway.web.wording import sentence

OWNER_PATH = "/owner"
OWNER_FRAME = Frame(OWNER_PATH, sentence("Your data"), sign_out=f"{OWNER_PATH}/sign-out")
_READS_SHOWN = 3
_READS_PAGE = 50
_SAID = {
    "approved": sentence(
        "You approved. The account can call from now on, until you revoke it here."
    ),
    "declined": sentence("You declined. Nothing was allowed."),
    "revoked": sentence("Revoked. The account's next call is refused."),
    "signed-out": sentence("You are signed out."),
}
_STATES = {
    "allowed": sentence("allowed"),
    "revoked": sentence("revoked"),
    "expired": sentence("expired"),
}


class ShownGrant(NamedTuple):
    """A grant as a row of the page."""

    grant: Grant
    account_name: str
    asks: str
    state: str
    state_text: str
    reads: list[Read]


class OwnerPages:
    """What an owner sees and does about their own grants."""

    def __init__(
        self,
        web: Web,
        database: Database,
        sessions: Sessions,
        needs: Mapping[tuple[str, str], ConsentNeed],
        titles: Mapping[str, str],
    ) -> None:
        self._web = web
        self._database = database
        self._sessions = sessions
        self._doorkeeper = Doorkeeper(database)
        self._runtime = Runtime(now_s=web.now_s)
        self._needs = needs
        self._titles = titles

    async def home(self, request: Request, visit: Visit) -> Response:
        notice = visit.view.say(_SAID.get(request.query_params.get("said", ""), ""))
        if visit.owner is None:
            return owner_sign_in(self._web, visit, notice=notice)
        return self._web.render(
            "owner.html",
            visit,
            notice=notice,
            grants=await self._shown(visit, visit.owner),
            titles=self._titles,
        )

    async def sign_in(self, request: Request, visit: Visit) -> Response:
        form = await self._web.form(request, visit)
        link = form.get("link", "")
        try:
            # Outside the page slots: a password check delays no other reader.
            async with self._web.aside():
                found = await self._doorkeeper.admit(
                    form.get("login", ""), form.get("password", "")
                )
        except TooManyAttemptsError:
            return owner_sign_in(self._web, visit, 429, link=link, problem=TOO_MANY)
        except TooManyAtOnceError:
            return owner_sign_in(self._web, visit, 429, link=link, problem=AT_ONCE)
        if found is None:
            return owner_sign_in(self._web, visit, 403, link=link, problem=WRONG)
        path = f"{AUTHORIZE_PATH}?{urlencode({'link': link})}" if link else OWNER_PATH
        return self._web.redirect(path, self._sessions.start(self._web.now_s(), found))

    async def sign_out(self, request: Request, visit: Visit) -> Response:
        await self._web.form(request, visit)
        path = f"{OWNER_PATH}?said=signed-out"
        return self._web.redirect(path, self._sessions.start(self._web.now_s()))

    async def revoke(self, request: Request, visit: Visit) -> Response:
        form = await self._web.form(request, visit)
        if visit.owner is None:
            return self._web.redirect(OWNER_PATH)
        grant = await self._own_grant(visit.owner, form.get("grant", ""))
        await revoke_grant(self._database, self._runtime, grant.id)
        return self._web.redirect(f"{OWNER_PATH}?said=revoked")

    async def reads(self, request: Request, visit: Visit) -> Response:
        if visit.owner is None:
            return self._web.redirect(OWNER_PATH)
        query = request.query_params
        grant = await self._own_grant(visit.owner, query.get("grant", ""))
        reads = await newest_reads(self._database, grant, _READS_PAGE, query.get("before", ""))
        return self._web.render(
            "reads.html",
            visit,
            grant=grant,
            account=await find_account(self._database, grant.account_id),
            reads=reads,
            has_older=len(reads) == _READS_PAGE,
            titles=self._titles,
        )

    async def _own_grant(self, owner: Owner, grant_id: str) -> Grant:
        """A grant of this very owner: another owner's looks as if it did not exist."""
        missing = PageError(404, "There is no such grant", "Your grants are listed on your page.")
        try:
            grant = await find_grant(self._database, grant_id)
        except LedgerError:
            raise missing from None
        if (grant.owner_kind, grant.owner_id) != (owner.kind, owner.id):
            raise missing
        return grant

    async def _shown(self, visit: Visit, owner: Owner) -> list[ShownGrant]:
        """Grants that hold first; within each group the newest first."""
        now_s = self._web.now_s()
        shown = []
        for grant, account_name in [
            (each.grant, each.account_name)
            for each in await grants_of_owner(self._database, owner.kind, owner.id)
        ]:
            need = self._needs.get((grant.owner_kind, grant.scope))
            shown.append(
                ShownGrant(
                    grant,
                    account_name,
                    need.asks if need else grant.scope,
                    state := _state(grant, now_s),
                    visit.view.say(_STATES[state]),
                    list(await newest_reads(self._database, grant, _READS_SHOWN)),
                )
            )
        return sorted(shown, key=lambda each: each.state != "allowed")


def owner_sign_in(
    web: Web,
    visit: Visit,
    status: int = 200,
    *,
    link: str = "",
    notice: str = "",
    problem: str = "",
) -> Response:
    """The form by which an owner signs in, because of a link or without one."""
    say = visit.view.say
    if link:
        lead = say(
            "An account asks for access to your data. Sign in to see which account, and what for; "
            "nothing is allowed before you approve."
        )
    else:
        lead = say("See who may use your data, what they read, and take it back.")
    return web.render(
        "sign_in.html",
        visit,
        status,
        action=f"{OWNER_PATH}/sign-in",
        lead=lead,
        link=link,
        notice=notice,
        problem=say(problem),
        forgotten=say("Forgotten? The operator of this gateway can set a new password."),
    )


def _state(grant: Grant, now_s: float) -> str:
    if grant.holds(now_s):
        return "allowed"
    return "revoked" if grant.revoked_at_s is not None else "expired"
