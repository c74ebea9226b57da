"""An owner's own pages: signing in and out, every grant and every read made under it, revoking; and
the page behind a password link from an operator, which asks for a new password."""

from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from tollway.consent.erasures import find_erasure
from tollway.consent.grants import (
    Grant,
    find_grant,
    grants_of_owner,
    newest_reads,
    revoke_grant,
)
from tollway.consent.links import AUTHORIZE_PATH, PASSWORD_PATH, PasswordLinks
from tollway.consent.owners import (
    Credential,
    Owner,
    credential_of,
    credential_of_login,
    put_password,
    sign_out_everywhere,
)
from tollway.contract.language import Phrase
from tollway.contract.operation import OwnerKind
from tollway.identity.passwords import PASSWORD_MAX, PASSWORD_MIN, StoredPassword
from tollway.identity.second_factor import find_factor
from tollway.identity.sign_in_limits import forget_mistakes
from tollway.ledger import LedgerError
from tollway.ledger.accounts import find_account
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database, Reader
from tollway.web.account_parts import CONSENTED
from tollway.web.blocks import Field, Form
from tollway.web.erasure_page import erasure_state
from tollway.web.lists import BEGIN, ListPart, list_part
from tollway.web.page_errors import UNUSABLE_LINK, PageError
from tollway.web.pages import Frame, Web
from tollway.web.second_factor import SecondFactorPages, code_field
from tollway.web.sign_in import (
    WRONG,
    Area,
    PasswordChecker,
    Sessions,
    TooManyChecksError,
    Visit,
    password_length,
)
from tollway.web.wording import is_own_address, sentence

OWNER_PATH = "/owner"
OWNER_FRAME = Frame(OWNER_PATH, sentence("Your data"), sign_out=f"{OWNER_PATH}/sign-out")
_READS_SHOWN = 3
_READS_PAGE = 50
_GRANTS_PAGE = 20
_SAID = {
    "approved": sentence(
        "You approved. The account can call from now on, until you revoke it here."
    ),
    "declined": sentence("You declined. Nothing was allowed."),
    "revoked": sentence("Revoked. The account's next call is refused."),
    "erasing": sentence("The receivers of your shop are being erased."),
    "new-password": sentence("Your new password is saved. Sign in with it."),
    "signed-out": sentence("You are signed out."),
}
_STATES = {
    "valid": sentence("allowed"),
    "revoked": sentence("revoked"),
    "expired": sentence("expired"),
}


async def _person(reader: Reader, kind: str, owner_id: str) -> Owner | None:
    found = await credential_of(reader, kind, owner_id)
    return None if found is None else found.owner


async def _password(reader: Reader, login: str) -> StoredPassword | None:
    found = await credential_of_login(reader, login)
    if found is None:
        return None
    return StoredPassword(found.owner.kind, found.owner.id, found.password_hash)


OWNERS = Area("owner", _person, _password)


@dataclass(frozen=True)
class OwnerPages:
    """What an owner sees and does about their own grants."""

    web: Web[Owner]
    database: Database
    sessions: Sessions[Owner]
    passwords: PasswordChecker
    factor: SecondFactorPages[Owner]

    async def home(self, request: Request, visit: Visit[Owner]) -> Response:
        notice = visit.view.say(_SAID.get(request.query_params.get("said", ""), ""))
        if visit.person is None:
            return owner_sign_in(self.web, visit, notice=notice)
        is_shop = visit.person.kind == OwnerKind.SHOP
        erasure = await find_erasure(self.database, visit.person.id) if is_shop else None
        return self.web.render(
            "owner.html",
            visit,
            notice=notice,
            is_shop=is_shop,
            is_erasing=erasure is not None and erasure.finished_at_s is None,
            erasure=erasure_state(erasure, self.web.zone, visit.view.say),
            part=await self._shown(visit, visit.person, request.query_params.get(BEGIN, "")),
        )

    async def show_sign_in(self, request: Request, _: Visit[Owner]) -> Response:
        """A refused password leaves this address in the browser, and people reload it."""
        link = request.query_params.get("link", "")
        return self.web.redirect(_after_sign_in(link))

    async def sign_in(self, request: Request, visit: Visit[Owner]) -> Response:
        form = await self.web.form(request, visit)
        again = {"link": form.get("link", ""), "login": form.get("login", "")}
        attempt = await self.sessions.attempt(request, again["login"])
        try:
            found = await self.web.admitted(self.passwords, attempt, form.get("password", ""))
        except TooManyChecksError as error:
            return owner_sign_in(self.web, visit, 429, problem=error.problem, **again)
        if found is None:
            return owner_sign_in(self.web, visit, 403, problem=WRONG, **again)
        path = _after_sign_in(again["link"])
        return await self.factor.finish(visit, attempt, found, path)

    async def sign_out(self, request: Request, visit: Visit[Owner]) -> Response:
        if visit.person is None:
            # The session has already ended, and the form's token with it. Other browsers may still
            # be signed in: only a person who is signed in can end their sessions too.
            return self.web.redirect(OWNER_PATH)
        form = await self.web.form(request, visit)
        if form.get("where") == "everywhere":
            await sign_out_everywhere(
                self.database, Runtime(now_s=self.web.now_s), visit.person.login
            )
        # One person can own several shops: keep a question that is for another one of them.
        back = form.get("back", "")
        is_question = back.startswith(f"{AUTHORIZE_PATH}?") and is_own_address(back)
        path = back if is_question else f"{OWNER_PATH}?said=signed-out"
        return self.web.redirect(path, await self.sessions.sign_out(visit, self.web.now_s()))

    async def revoke(self, request: Request, visit: Visit[Owner]) -> Response:
        form = await self.web.form(request, visit)
        if visit.person is None:
            return self.web.redirect(OWNER_PATH)
        grant = await self._own_grant(visit.person, form.get("grant", ""))
        account = await find_account(self.database, grant.account_id)
        say = visit.view.say
        question = say(
            "{account} may no longer {asks}: its next call is refused. Only a new link of theirs "
            "allows it again.",
            account=account.name,
            asks=say(_asks(grant)),
        )
        asked = self.web.ask_once(visit, form, question, say("Revoke"))
        if asked is not None:
            return asked
        # A second click finds that it has ended, as it was meant to.
        with suppress(LedgerError):
            await revoke_grant(self.database, Runtime(now_s=self.web.now_s), grant.id)
        return self.web.redirect(f"{OWNER_PATH}?said=revoked")

    async def missing(self, _: Request, __: Visit[Owner]) -> Response:
        raise PageError(404, "There is no such page", "Your page has all there is.")

    async def reads(self, request: Request, visit: Visit[Owner]) -> Response:
        if visit.person is None:
            return self.web.redirect(OWNER_PATH)
        query = request.query_params
        grant = await self._own_grant(visit.person, query.get("grant", ""))
        found = await newest_reads(self.database, grant, _READS_PAGE + 1, query.get("before", ""))
        return self.web.render(
            "reads.html",
            visit,
            grant=grant,
            account=await find_account(self.database, grant.account_id),
            reads=found[:_READS_PAGE],
            has_older=len(found) > _READS_PAGE,
        )

    async def _own_grant(self, owner: Owner, grant_id: str) -> Grant:
        """A grant of this owner; another owner's grant is "no such grant"."""
        missing = PageError(404, "There is no such grant", "Your grants are listed on your page.")
        try:
            grant = await find_grant(self.database, grant_id)
        except LedgerError:
            raise missing from None
        if (grant.owner_kind, grant.owner_id) != (owner.kind, owner.id):
            raise missing
        return grant

    async def _shown(
        self, visit: Visit[Owner], owner: Owner, begin: str
    ) -> ListPart[dict[str, object]]:
        """Grants that are in force first, then the others; the newest first in each group."""
        now_s = self.web.now_s()
        found = await grants_of_owner(self.database, owner.kind, owner.id)
        found = sorted(found, key=lambda each: each.grant.state(now_s) != "valid")
        part = list_part(found, begin, OWNER_PATH, most=_GRANTS_PAGE)
        shown = []
        for grant, account_name in ((each.grant, each.account_name) for each in part.rows):
            shown.append(
                {
                    "grant": grant,
                    "account_name": account_name,
                    "asks": _asks(grant),
                    "state": (state := grant.state(now_s)),
                    "state_text": visit.view.say(_STATES[state]),
                    "reads": list(await newest_reads(self.database, grant, _READS_SHOWN)),
                }
            )
        return ListPart(shown, part.first, part.next)


def _asks(grant: Grant) -> str | Phrase:
    """What a grant allows, as its owner reads it."""
    consented = CONSENTED.get((grant.owner_kind, grant.scope))
    return consented[0].asks if consented else grant.scope


def owner_sign_in(
    web: Web[Owner],
    visit: Visit[Owner],
    status: int = 200,
    *,
    link: str = "",
    login: str = "",
    notice: str = "",
    problem: str = "",
) -> Response:
    """The sign-in form of an owner, for the question of a link or without one."""
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
        replace(visit, view=visit.view.at()),
        status,
        action=_with_link(f"{OWNER_PATH}/sign-in", link),
        lead=lead,
        link=link,
        login=login,
        notice=notice,
        problem=say(problem),
        forgotten=say("Forgotten? The operator of this gateway can send you a link for a new one."),
    )


def _with_link(path: str, link: str) -> str:
    return f"{path}?{urlencode({'link': link})}" if link else path


def _after_sign_in(link: str) -> str:
    """To the question of a link, or to the owner's page."""
    return _with_link(AUTHORIZE_PATH if link else OWNER_PATH, link)


@dataclass(frozen=True)
class PasswordPages:
    """Shows the form, and takes the password. The link says whose it is; an owner with a second
    factor needs a code too, so that a stolen link alone changes nothing."""

    web: Web[Owner]
    database: Database
    links: PasswordLinks
    factor: SecondFactorPages[Owner]
    passwords: PasswordChecker
    sessions: Sessions[Owner]

    async def ask(self, request: Request, visit: Visit[Owner]) -> Response:
        link = request.query_params.get("link", "")
        return await self._form(visit, (await self._found(link)).owner, link)

    async def answer(self, request: Request, visit: Visit[Owner]) -> Response:
        form = await self.web.form(request, visit)
        link, password = form.get("link", ""), form.get("password", "")
        found = await self._found(link)
        owner = found.owner
        if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
            return await self._form(visit, owner, link, 400, password_length(visit.view.say))
        if password != form.get("again", ""):
            problem = visit.view.say("The two are different. Type both again.")
            return await self._form(visit, owner, link, 400, problem)
        if await self._needs_code(owner):
            wrong = await self.factor.problem_with(request, owner, form.get("code", ""))
            if wrong is not None:
                return await self._form(visit, owner, link, wrong[0], visit.view.say(wrong[1]))
        async with self.web.without_slot():
            hashed = await self.passwords.hashed(password, f"{owner.kind} {owner.id}")
        runtime = Runtime(now_s=self.web.now_s)
        # The link is valid for the old password only, and may have been used meanwhile.
        changed = await put_password(
            self.database, runtime, owner.login, hashed, replaced=found.password_hash
        )
        if changed is None:
            raise PageError(*UNUSABLE_LINK)
        attempt = await self.sessions.attempt(request, owner.login)
        await forget_mistakes(self.database, attempt)
        return self.web.redirect("/owner?said=new-password")

    async def _found(self, link: str) -> Credential:
        found = await self.links.read(link, self.database, self.web.now_s())
        if found is None:
            raise PageError(*UNUSABLE_LINK)
        return found

    async def _needs_code(self, owner: Owner) -> bool:
        return await find_factor(self.database, owner.kind, owner.id) is not None

    async def _form(
        self, visit: Visit[Owner], owner: Owner, link: str, status: int = 200, problem: str = ""
    ) -> Response:
        say = visit.view.say
        fields = [
            Field(
                name,
                label,
                kind="password",
                is_required=True,
                length_max=PASSWORD_MAX,
                autocomplete="new-password",
                help=help_,
            )
            for name, label, help_ in (
                ("password", say("New password"), "" if problem else password_length(say)),
                ("again", say("Once more"), ""),
            )
        ]
        if await self._needs_code(owner):
            fields.append(code_field(say))
        asked = Form(
            # With the link, so that the page can be reloaded after a refused password.
            f"{PASSWORD_PATH}?{urlencode({'link': link})}",
            say("Save"),
            fields,
            hidden={"link": link},
            note=say("For the login {login}. It ends your sessions.", login=owner.login),
            problem=problem,
        )
        visit = replace(visit, view=visit.view.at())
        return self.web.page(visit, say("Choose a new password"), [asked], status=status)
