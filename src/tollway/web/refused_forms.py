"""A form that was refused is shown again on its page, with what was typed and what was wrong."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tollway.web.blocks import Block, Columns, Field, Form, Notice

# What a browser cannot be given back, or must not be.
_NEVER_KEPT = ("password", "file")


@dataclass(frozen=True)
class RefusedForm:
    """Where a form was sent, what was typed into it, and why it was refused; `wrong` are the
    names of what may be wrong."""

    action: str
    typed: Mapping[str, str]
    problem: str
    wrong: Set[str] = frozenset()

    def shown_in(self, blocks: Sequence[Block]) -> list[Block]:
        """The page with the form as it was sent, or with the problem above if it has none such."""
        kept = self._kept_in(blocks)
        return kept if kept != list(blocks) else [Notice(self.problem, "bad"), *blocks]

    def _kept_in(self, blocks: Sequence[Block]) -> list[Block]:
        return [self._kept(block) for block in blocks]

    def _kept(self, block: Block) -> Block:
        if isinstance(block, Columns):
            return replace(block, blocks=self._kept_in(block.blocks))
        if isinstance(block, Form) and self._is_sent(block):
            return self._filled(block)
        return block

    def _is_sent(self, form: Form) -> bool:
        return form.action == self.action and all(
            self.typed.get(name) == value for name, value in form.hidden.items()
        )

    def _filled(self, form: Form) -> Form:
        wrong = [number for number, field in enumerate(form.fields) if field.name in self.wrong]
        is_one = len(wrong) == 1
        # The browser goes to this field by itself, however far down the form is; or else to the
        # problem above all fields.
        focus = wrong[0] if is_one else None
        fields = [
            replace(
                field,
                value=self._value(field),
                has_focus=number == focus,
                problem=self.problem if number == focus else "",
            )
            for number, field in enumerate(form.fields)
        ]
        return replace(form, fields=fields, problem="" if is_one else self.problem, is_folded=False)

    def _value(self, field: Field) -> str:
        if field.kind in _NEVER_KEPT:
            return ""
        if field.kind == "checks":
            return ",".join(field.ticked(self.typed))
        # A browser does not send a box that is not ticked.
        other = "" if field.kind == "checkbox" else field.value
        return self.typed.get(field.name, other)
