"""The page behind the link that an operator makes for an owner: it asks for a new password."""

from dataclasses import dataclass, replace
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from tollway.consent.links import PASSWORD_PATH, PasswordLinks
from tollway.consent.owners import Credential, Owner, put_password
from tollway.identity.passwords import PASSWORD_MAX, PASSWORD_MIN
from tollway.identity.second_factor import find_factor
from tollway.identity.sign_in_limits import forget_mistakes
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database
from tollway.web.blocks import Field, Form
from tollway.web.page_errors import UNUSABLE_LINK, PageError
from tollway.web.pages import Web
from tollway.web.second_factor import SecondFactorPages, code_field
from tollway.web.sign_in import Doorkeeper, Sessions, Visit, password_length


@dataclass(frozen=True)
class PasswordPages:
    """Shows the form, and takes the password. The link says whose it is; an owner who has a second
    factor needs a code too, so that a stolen link changes nothing."""

    web: Web[Owner]
    database: Database
    links: PasswordLinks
    factor: SecondFactorPages[Owner]
    doorkeeper: Doorkeeper
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
        async with self.web.aside():
            hashed = await self.doorkeeper.hashed(password, f"{owner.kind} {owner.id}")
        runtime = Runtime(now_s=self.web.now_s)
        # The link holds for the old password only, and may have been used meanwhile.
        changed = await put_password(
            self.database, runtime, owner.login, hashed, replaced=found.password_hash
        )
        if changed is None:
            raise PageError(*UNUSABLE_LINK)
        await forget_mistakes(self.database, self.sessions.attempt(request, owner.login))
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
            # With the link, so that the page can be loaded again after a refused password.
            f"{PASSWORD_PATH}?{urlencode({'link': link})}",
            say("Save"),
            fields,
            hidden={"link": link},
            note=say("For the login {login}. It ends your sessions.", login=owner.login),
            problem=problem,
        )
        visit = replace(visit, view=visit.view.at())
        return self.web.page(visit, say("Choose a new password"), [asked], status=status)
