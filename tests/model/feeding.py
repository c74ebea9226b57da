"""What comes in: pushes and files of orders and claims, files of figures and material."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from tests.model import records
from tests.model.client import Client
from tests.model.commands import Operator
from tests.model.comparing import MismatchError
from tests.model.expected.claims import is_good_claim
from tests.model.expected.history import History
from tests.model.expected.model import Model
from tests.model.expected.orders import is_good_order

SOURCE = "market"
_ZONE = ZoneInfo("Asia/Shanghai")


class Feeder:
    """Sends records, from a source of chance of its own. What one feeds, no other feeds at the same
    time: so the order of all that came in is known."""

    def __init__(
        self, model: Model, operator: Operator, secret: str, folder: Path, seed: str
    ) -> None:
        self._model = model
        self._operator = operator
        self._secret = secret
        self._chance = Random(seed)
        self._file = folder / f"{seed}.jsonl"
        self.pushes = 0

    def feed_orders(self, client: Client, owner_id: str) -> None:
        """Some versions of a shop's orders."""
        history = self._model.shops[owner_id]
        coming = [
            records.order(self._chance, owner_id, history.now) for _ in range(self._how_many())
        ]
        self._feed(client, "orders", history, coming, is_good_order)

    def feed_claims(self, client: Client) -> None:
        history = self._model.claims
        coming = [records.claim(self._chance, history.now) for _ in range(self._how_many())]
        self._feed(client, "coupon-claims", history, coming, is_good_claim)

    def load_figures(self) -> None:
        today = datetime.now(_ZONE).date()
        coming = records.figures(self._chance, today, self._chance.choice((1, 5, 60)))
        self._load("product-figures", self._model.figures, coming, coming)

    def load_materials(self) -> None:
        history = self._model.materials
        coming = records.materials(self._chance, self._chance.choice((1, 8)), history.now.materials)
        self._load("promotion-material", history, coming, coming)

    def _how_many(self) -> int:
        return self._chance.choice((1, 1, 2, 5, 20, 60, self._chance.randint(1, 200)))

    def _feed(
        self,
        client: Client,
        kind: str,
        history: History[Any],
        coming: Sequence[dict[str, Any]],
        is_good: Callable[[dict[str, Any]], bool],
    ) -> None:
        good = [record for record in coming if is_good(record)]
        if self._chance.random() < 0.03:
            self._load(kind, history, coming, good)
        else:
            self._push(client, kind, history, coming, good)

    def _push(
        self,
        client: Client,
        kind: str,
        history: History[Any],
        coming: Sequence[dict[str, Any]],
        good: Sequence[dict[str, Any]],
    ) -> None:
        after, changed = history.now.with_records(good)
        expected = {
            "stored": changed,
            "unchanged": len(good) - changed,
            "rejected": len(coming) - len(good),
        }
        self.pushes += 1
        with history.changing_to(after):
            answer = client.push(
                kind, SOURCE, self._secret, self._body(coming), f"msg_{self.pushes}"
            )
        # The first ten of the rejected records are named, by their places in the body.
        named = [each["record"] for each in answer.body.pop("problems", [])]
        rejected = [place for place, record in enumerate(coming, 1) if record not in good]
        if (answer.status, answer.body, named) != (200, expected, rejected[:10]):
            raise MismatchError(f"a push of {kind} was answered with {answer}, not {expected}")

    def _load(
        self,
        kind: str,
        history: History[Any],
        coming: Sequence[dict[str, Any]],
        good: Sequence[dict[str, Any]],
    ) -> None:
        after, changed = history.now.with_records(good)
        expected = {
            "read": len(coming),
            "stored": len(good),
            "changed": changed,
            "rejected": len(coming) - len(good),
        }
        with history.changing_to(after):
            loaded = self._operator.load(kind, self._file, coming)
        if loaded != expected:
            raise MismatchError(f"an import of {kind} came to {loaded}, not {expected}")

    def _body(self, coming: Sequence[dict[str, Any]]) -> bytes:
        """An array, one object a line, or one object."""
        lines = [json.dumps(record, ensure_ascii=self._chance.random() < 0.5) for record in coming]
        if len(lines) == 1 and self._chance.random() < 0.5:
            return lines[0].encode()
        if self._chance.random() < 0.3:
            return "\n".join(lines).encode()
        return f"[{','.join(lines)}]".encode()
