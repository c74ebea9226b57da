"""The page behind the link that an operator makes for an owner: it asks for a new password."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from tollway.consent.links import PASSWORD_PATH, PasswordLinks
from tollway.consent.owners import Owner, put_password
from tollway.identity.passwords import PASSWORD_MAX, PASSWORD_MIN, hash_password
from tollway.ledger.runtime import Runtime
from tollway.store.concurrency import BoundedSlots
from tollway.store.database import Database
from tollway.web.blocks import Field, Form
from tollway.web.pages import PageError, Web
from tollway.web.sign_in import Visit
from tollway.web.wording import sentence

_UNUSABLE = (
    410,
    sentence("This link cannot be used"),
    sentence("It was used before, has expired, or is incomplete. Ask for a new one."),
)
_WAIT_S = 3.0


class PasswordPages:
    """Shows the form, and takes the password. The link alone says whose it is."""

    def __init__(self, web: Web[Owner], database: Database, links: PasswordLinks) -> None:
        self._web = web
        self._database = database
        self._links = links
        # A hash takes 64 MiB.
        self._hashing = BoundedSlots(1, "too many passwords at once")

    async def ask(self, request: Request, visit: Visit[Owner]) -> Response:
        link = request.query_params.get("link", "")
        return self._form(visit, await self._owner(link), link)

    async def answer(self, request: Request, visit: Visit[Owner]) -> Response:
        form = await self._web.form(request, visit)
        link, password = form.get("link", ""), form.get("password", "")
        owner = await self._owner(link)
        if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
            problem = visit.view.say(
                "It must have {least} to {most} characters.", least=PASSWORD_MIN, most=PASSWORD_MAX
            )
            return self._form(visit, owner, link, problem)
        if password != form.get("again", ""):
            problem = visit.view.say("The two are different. Type both again.")
            return self._form(visit, owner, link, problem)
        async with self._web.aside(), self._hashing.taken(_WAIT_S):
            hashed = await asyncio.to_thread(hash_password, password)
        # The link holds for the old password only, and may have been used meanwhile.
        await self._owner(link)
        runtime = Runtime(now_s=self._web.now_s)
        await put_password(self._database, runtime, owner.login, hashed)
        return self._web.redirect("/owner?said=new-password")

    async def _owner(self, link: str) -> Owner:
        owner = await self._links.read(link, self._database, self._web.now_s())
        if owner is None:
            raise PageError(*_UNUSABLE)
        return owner

    def _form(self, visit: Visit[Owner], owner: Owner, link: str, problem: str = "") -> Response:
        say = visit.view.say
        fields = [
            Field(
                name,
                label,
                kind="password",
                is_required=True,
                length_max=PASSWORD_MAX,
                autocomplete="new-password",
            )
            for name, label in (("password", say("New password")), ("again", say("Once more")))
        ]
        asked = Form(
            PASSWORD_PATH,
            say("Save"),
            fields,
            hidden={"link": link},
            note=say("For the login {login}. It ends your sessions.", login=owner.login),
            problem=problem,
        )
        status = 400 if problem else 200
        return self._web.page(visit, say("Choose a new password"), [asked], status=status)
