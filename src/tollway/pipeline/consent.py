"""Stage: is the shop or user whose data is requested known, and has it authorized this account."""

from collections.abc import Awaitable

from tollway.consent.grant_cache import SANDBOX_ACCOUNT, GrantCache, GrantState
from tollway.consent.grants import GrantRequest
from tollway.consent.links import ConsentLinks
from tollway.contract.operation import OWNER_KINDS, ConsentNeed
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charges import GrantKey
from tollway.pipeline.call import Call


class Consent:
    """Lets a call pass if its account has consent. Only operations that need consent have this
    stage."""

    def __init__(self, links: ConsentLinks) -> None:
        self._links = links

    def __call__(self, call: Call) -> Awaitable[None] | None:
        # What is cached is as fresh as the token, which was looked at just now.
        need = call.operation.consent
        assert need is not None
        grant_cache = call.side.grant_cache
        account_id = SANDBOX_ACCOUNT if call.caller.is_test else call.caller.account_id
        owner_id = str(getattr(call.request, need.field))
        known = grant_cache.known(account_id, need.whose, owner_id)
        if known is None:
            return self._look_up(call, need, grant_cache, account_id, owner_id)
        self._check(call, need, owner_id, known)
        return None

    async def _look_up(
        self, call: Call, need: ConsentNeed, grant_cache: GrantCache, account_id: str, owner_id: str
    ) -> None:
        found = await grant_cache.look_up(account_id, need.whose, owner_id)
        self._check(call, need, owner_id, found)

    def _check(self, call: Call, need: ConsentNeed, owner_id: str, state: GrantState) -> None:
        if not state.is_known:
            raise Refusal(Reason.OWNER_UNKNOWN, field=need.field)
        grant = state.grants.get(need.scope)
        if grant is None or not grant.holds(call.at_s):
            raise self._not_authorized(call, need, owner_id)
        call.grant = GrantKey(grant.owner_kind, grant.owner_id, grant.id)

    def _not_authorized(self, call: Call, need: ConsentNeed, owner_id: str) -> Refusal:
        grant_request = GrantRequest(call.caller.account_id, need.whose, owner_id, need.scope)
        link = self._links.make(grant_request, call.at_s, is_sandbox=call.caller.is_test)
        return Refusal(
            Reason.NOT_AUTHORIZED,
            data={"authorize_url": link.url, "expires_at": link.expires_at_s},
            owner=OWNER_KINDS[need.whose],
            field=need.field,
        )
