"""The API reference, made from the descriptors: every parameter, answer and code, in the reader's
language, with examples that can be tried in the sandbox."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tollway.consent.owners import Owner
from tollway.contract.operation import Operation
from tollway.contract.reasons import Reason
from tollway.operations.account_api import ACCOUNT_OPERATIONS
from tollway.operations.account_api.examples import ALL_EXAMPLES
from tollway.operations.catalogue import ALL_OPERATIONS, MORE_CALLS, OPERATIONS
from tollway.operations.demo_data import SandboxItem
from tollway.web.blocks import Block, Cell, Code, Link, Table
from tollway.web.code_samples import samples_of, takes_live_token, token_prefix
from tollway.web.pages import OPEN_FRAME, Page, Web
from tollway.web.reference_parts import (
    DOCS_PATH,
    EVENTS_LEAD,
    codes_of,
    event_blocks,
    facts_of,
    fields_of,
    headers,
    list_of,
    packages,
    page_of,
    parameters_of,
    refusals_of,
    tried_fields,
)
from tollway.web.sign_in import Visit
from tollway.web.wording import sentence


@dataclass(frozen=True)
class ReferencePages:
    """`/docs`, a page for each operation, and the pages of the codes, events and sandbox."""

    web: Web[Owner]
    base: str
    sandbox: Sequence[SandboxItem]

    def pages(self) -> dict[str, Page[Owner]]:
        """Every page by its path."""
        found: dict[str, Page[Owner]] = {
            DOCS_PATH: self._index,
            f"{DOCS_PATH}/codes": self._codes,
            f"{DOCS_PATH}/events": self._events,
            f"{DOCS_PATH}/sandbox": self._sandbox_page,
        }
        for operation in (*ALL_OPERATIONS, *ACCOUNT_OPERATIONS):
            found[page_of(operation)] = self._operation_page(operation)
        return found

    async def _index(self, _: Request, visit: Visit[Owner]) -> Response:
        say = visit.view.say
        first, example = OPERATIONS[0], ALL_EXAMPLES.get(OPERATIONS[0].name)
        blocks: list[Block] = [
            list_of(say("Operations"), OPERATIONS, visit.view),
            list_of(say("More calls on the same data"), MORE_CALLS, visit.view),
            list_of(say("Account API: free of charge"), ACCOUNT_OPERATIONS, visit.view),
        ]
        if example is not None:
            samples = samples_of(first, example.request(self.web.now().date()), self.base)
            blocks.insert(0, Code(say("Your first call, in the sandbox"), samples[:1]))
        blocks.insert(1, packages(visit.view))
        blocks.insert(2, headers(visit.view))
        return self._page(visit, say("API reference"), blocks, lead=say(_LEAD))

    async def _codes(self, _: Request, visit: Visit[Owner]) -> Response:
        say = visit.view.say
        table = codes_of(list(Reason), (*ALL_OPERATIONS, *ACCOUNT_OPERATIONS), visit.view)
        # It is all there is on the page, under the same heading.
        return self._page(visit, say("Codes"), [replace(table, title="")])

    async def _events(self, _: Request, visit: Visit[Owner]) -> Response:
        say = visit.view.say
        blocks = event_blocks(visit.view)
        return self._page(visit, say("Webhooks"), blocks, lead=say(EVENTS_LEAD))

    async def _sandbox_page(self, _: Request, visit: Visit[Owner]) -> Response:
        say, language = visit.view.say, visit.view.language
        rows = [
            [
                Cell(each.kind.said(language)),
                Cell(each.parameter, "mono"),
                Cell(each.value, "mono"),
                Cell(each.note.said(language)),
            ]
            for each in self.sandbox
        ]
        contents = Table(
            [say("Kind"), say("Parameter"), say("Value"), ""],
            rows,
            title=say("What the sandbox has"),
        )
        outcomes = [
            ("CREDITS_USED_UP", say("any reason that the operation has, by its name")),
            ("slow:3000", say("an answer that takes so many milliseconds")),
        ]
        outcomes += [
            (name, say("for {operation}", operation=say(operation.title)))
            for operation in OPERATIONS
            for name in operation.sandbox_outcomes
        ]
        table = Table(
            ["X-Tollway-Outcome", ""],
            [[Cell(name, "mono"), Cell(note)] for name, note in outcomes],
            title=say("Any outcome, on request"),
            links=[Link(say("All reasons"), f"{DOCS_PATH}/codes")],
        )
        return self._page(visit, say("Sandbox"), [contents, table], lead=say(_SANDBOX_LEAD))

    def _operation_page(self, operation: Operation) -> Page[Owner]:
        async def show(_: Request, visit: Visit[Owner]) -> Response:
            view, example = visit.view, ALL_EXAMPLES.get(operation.name)
            say = view.say
            blocks: list[Block] = [facts_of(operation, view), parameters_of(operation, view)]
            request = {} if example is None else dict(example.request(self.web.now().date()))
            if example is not None:
                blocks.append(Code(say("Examples"), samples_of(operation, request, self.base)))
            blocks.append(fields_of(operation, view))
            if example is not None:
                answered = example.answer_in(view.language)
                answer = msgspec.json.format(msgspec.json.encode(answered)).decode()
                title = say("Example of a line") if operation.is_file else say("Example of data")
                blocks.append(Code(title, [("JSON", answer)]))
            blocks.append(codes_of(operation.reasons, [operation], view))
            blocks.append(refusals_of(operation, view, self.base, int(self.web.now_s())))
            return self._page(
                visit,
                view.say(operation.title),
                blocks,
                lead=say(operation.note) if operation.note else "",
                tried=operation if example is not None else None,
                request=request,
            )

        return show

    def _page(
        self,
        visit: Visit[Owner],
        title: str,
        blocks: Sequence[Block],
        *,
        lead: str = "",
        tried: Operation | None = None,
        request: dict[str, Any] | None = None,
    ) -> Response:
        say = visit.view.say
        crumbs = [] if visit.view.address == DOCS_PATH else [Link(say("API reference"), DOCS_PATH)]
        others = [
            Link(say("Codes"), f"{DOCS_PATH}/codes"),
            Link(say("Sandbox"), f"{DOCS_PATH}/sandbox"),
            Link(say("Webhooks"), f"{DOCS_PATH}/events"),
            Link("OpenAPI", "/openapi.json"),
        ]
        is_live = tried is not None and takes_live_token(tried)
        if tried is not None:
            # The form is at the end of a long page.
            here = say("Try it with your account") if is_live else say("Try it in the sandbox")
            others.insert(0, Link(here, "#try"))
        return self.web.render(
            "reference.html",
            visit,
            frame=OPEN_FRAME,
            signed_in="",
            title=title,
            lead=lead,
            crumbs=crumbs,
            actions=[each for each in others if each.href != visit.view.address],
            shown=blocks,
            live_s=0,
            is_printable=False,
            tried=tried,
            is_live=is_live,
            token_prefix="" if tried is None else token_prefix(tried),
            fields=[] if tried is None else tried_fields(tried, request or {}),
        )


_LEAD = sentence(
    "Every answer is the same JSON envelope: code, msg, msec, time, data. Code 0 means success, "
    "and only success is charged."
)
_SANDBOX_LEAD = sentence(
    "A test token uses the sandbox: the same checks, made-up data, nothing charged. A header makes "
    "it give any answer."
)
