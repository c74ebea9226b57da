"""The operator of a gateway: every command that the campaign gives, and what it must print."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.forks import programs, run
from tests.support.stores import Store

_TIMEOUT_S = 600
# No limit that these campaigns could reach.
RATE = 1_000_000


class Operator:
    """Runs `tollway` on one store."""

    def __init__(self, store: Store) -> None:
        self._folder = store.path.parent
        others = {k: v for k, v in os.environ.items() if not k.startswith("TOLLWAY_")}
        self._environment = {**others, **store.settings}

    def open_account(self, name: str) -> str:
        return str(self._json("account", "open", name)["id"])

    def close_account(self, name: str) -> None:
        self._json("account", "close", name, "--yes")

    def issue_token(self, account: str, *, is_test: bool = False) -> tuple[str, str]:
        """A new token, and its id."""
        issued = self._json("token", "issue", account, *(["--test"] if is_test else []))
        return issued["text"], issued["token"]["id"]

    def revoke_token(self, token: str) -> None:
        self._json("token", "revoke", token)

    def permit(self, account: str, operation: str, price: int | None) -> None:
        own = () if price is None else ("--price", str(price))
        self._json("permission", "add", account, operation, "--rate", str(RATE), *own)

    def forbid(self, account: str, operation: str) -> None:
        self._json("permission", "revoke", account, operation)

    def set_price(self, operation: str, price: int) -> None:
        self._json("price", "set", operation, str(price))

    def close_operation(self, operation: str) -> None:
        self._json("operation", "close", operation)

    def open_operation(self, operation: str) -> None:
        self._json("operation", "open", operation)

    def top_up(self, account: str, unit: str, amount: int, note: str) -> dict[str, Any]:
        _, _, operation = unit.partition(":")
        which = ("--calls", operation) if operation else ()
        added: dict[str, Any] = self._json(
            "credit", "add", account, *which, "--note", note, "--", str(amount)
        )
        return added

    def add_owner(self, kind: str, owner_id: str) -> None:
        login = f"{kind}-{owner_id}"
        command = ("shop", "add", owner_id, f"Owner {owner_id}", "--kind", kind, "--login", login)
        subprocess.run(
            [programs() / "tollway", *command, "--password-stdin"],
            input=b"a long password\n",
            cwd=self._folder,
            env=self._environment,
            check=True,
            capture_output=True,
            timeout=_TIMEOUT_S,
        )

    def give_consent(self, account: str, kind: str, owner_id: str, scope: str) -> str:
        return str(self._json("consent", "grant", account, kind, owner_id, scope)["id"])

    def revoke_consent(self, consent_id: str) -> None:
        self._json("consent", "revoke", consent_id)

    def add_source(self, name: str) -> str:
        """The secret that its pushes are signed with."""
        return str(self._json("source", "add", name, "--shop", "*", "--channel", "*")["secret"])

    def load(self, kind: str, file: Path, records: Sequence[Any]) -> dict[str, int]:
        lines = [json.dumps(record, ensure_ascii=False) for record in records]
        file.write_text("\n".join(lines), encoding="utf-8")
        loaded = self._json("import", kind, str(file))
        return {name: loaded[name] for name in ("read", "stored", "changed", "rejected")}

    def export(self, account: str) -> list[dict[str, Any]]:
        """All entries of an account, the oldest first."""
        printed = self._run("ledger", "export", account, "--lines")
        return [json.loads(line) for line in printed.splitlines()]

    def audit(self) -> None:
        """Fails if anything that the database says twice is not the same."""
        self._run("audit")

    def _json(self, *arguments: str) -> Any:
        command, *rest = arguments
        place = rest.index("--") if "--" in rest else len(rest)
        return json.loads(self._run(command, *rest[:place], "--json", *rest[place:]))

    def _run(self, *arguments: str) -> str:
        ended = run(
            "tollway",
            *arguments,
            env=self._environment,
            cwd=self._folder,
            timeout=_TIMEOUT_S,
        )
        # An import that rejected a record has stored the others, and exits with 1.
        expected = (0, 1) if arguments[0] == "import" else (0,)
        assert ended.returncode in expected, f"{' '.join(arguments)}: {ended.stderr}{ended.stdout}"
        return ended.stdout
