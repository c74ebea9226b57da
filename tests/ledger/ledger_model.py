"""The ledger as it should be: dicts and whole numbers, no SQL.

Written from what is promised, not from how it is done. It follows the code in one thing: of the
calls that share a commit, those that only pay come before those that do something as well.
"""

import copy

from tests.ledger.ledger_calls import (
    BREAK,
    CONFLICT,
    DATA,
    DEED,
    EARLIER,
    ERRANDS,
    FAIL,
    FAILED,
    FREE,
    NOT_LET_IN,
    SHORT,
    SILENT,
    TAKEN,
    UNHEARD,
    Crash,
    Outcome,
    Wanted,
)
from tests.ledger.ledger_rows import Balance, Hold, Kept

DAY_MS = 24 * 3600 * 1000


class LedgerModel:
    """Everything that is in the database, and what calls and operators do to it."""

    def __init__(self) -> None:
        self.balances: dict[tuple[str, str], Balance] = {}
        self.holds: dict[tuple[str, str], Hold] = {}
        self.kept: dict[tuple[str, str], Kept] = {}
        self.deeds: set[str] = set()
        self.revoked: set[str] = set()
        self.prices: dict[tuple[str, str], int] = {}

    def top_up(self, account_id: str, unit: str, amount: int, at_ms: int) -> bool:
        if self._left(account_id, unit) + amount < 0 or (
            amount < 0 and (account_id, unit) not in self.balances
        ):
            return False
        balance = self.balances.setdefault((account_id, unit), Balance())
        balance.enter("top_up" if amount > 0 else "correction", amount, at_ms)
        return True

    def end_hold(self, account_id: str, hold_id: str, state: str, at_ms: int) -> bool:
        """Captures or releases, once."""
        hold = self.holds.get((account_id, hold_id))
        if hold is None or hold.state != "held":
            return False
        hold.state = state
        if hold.amount:
            balance = self.balances[account_id, hold.unit]
            balance.held -= hold.amount
            balance.enter("release", hold.amount, at_ms, hold)
            if state == "captured":
                balance.posted += hold.amount
                balance.enter("charge", -hold.amount, at_ms, hold)
        kept = self.kept.get((account_id, hold.key or ""))
        if state == "released" and kept and (kept.data, kept.request_id) == (None, hold.request_id):
            del self.kept[account_id, hold.key or ""]
        return True

    def sweep(self, now_ms: int) -> None:
        self.kept = {k: kept for k, kept in self.kept.items() if now_ms - kept.at_ms < DAY_MS}

    def answer(self, calls: list[Wanted], crash: Crash | None = None) -> list[Outcome]:
        """Calls that come at the same moment; a crash leaves some of them without an answer."""
        heard = [self._front(call) for call in calls]
        waiting = [position for position, outcome in enumerate(heard) if outcome is None]
        for commit, work in enumerate((self._first_commit, self._second_commit), start=1):
            if not waiting:
                break
            before = copy.deepcopy(self.__dict__) if crash and crash.at_commit == commit else None
            for position, outcome in work({p: calls[p] for p in waiting}).items():
                heard[position] = outcome
            if crash and before is not None:
                if not crash.is_committed:
                    self.__dict__ = before
                heard = [UNHEARD if p in waiting else each for p, each in enumerate(heard)]
                break
            waiting = [position for position in waiting if heard[position] is None]
        return [outcome for outcome in heard if outcome is not None]

    def _front(self, call: Wanted) -> Outcome | None:
        """What is known without a commit."""
        if call.token_id in self.revoked:
            return NOT_LET_IN
        repeated = self._repeated(call)
        if repeated is not None:
            return repeated
        price = self._price(call)
        if not call.may_be_free and self._left(call.account_id, call.unit) < price:
            return SHORT
        if call.asked.what == BREAK:
            return FAILED
        if not price and call.key is None and call.asked.what == DATA:
            return Outcome("answered", call.request_id)
        return None

    def _first_commit(self, calls: dict[int, Wanted]) -> dict[int, Outcome | None]:
        plain = {p for p, call in calls.items() if call.asked.what == DATA and call.key is None}
        in_order = [p for p in calls if p in plain] + [p for p in calls if p not in plain]
        outcomes = {position: self._first(calls[position]) for position in in_order}
        for position, outcome in outcomes.items():
            if outcome is None and calls[position].asked.what == SILENT:
                outcomes[position] = FAILED
        return outcomes

    def _second_commit(self, calls: dict[int, Wanted]) -> dict[int, Outcome | None]:
        return {position: self._second(call) for position, call in calls.items()}

    def _first(self, call: Wanted) -> Outcome | None:
        """None of an errand that now goes on outside."""
        repeated = self._repeated(call)
        if repeated is not None:
            return repeated
        what = call.asked.what
        if what == FAIL:
            return FAILED
        if what == FREE:
            return self._keep(call, Outcome("answered", call.request_id, 0, EARLIER))
        if what in ERRANDS:
            return self._set_out(call)
        price = self._price(call)
        if self._left(call.account_id, call.unit) < price:
            return SHORT
        if price:
            balance = self.balances[call.account_id, call.unit]
            balance.posted += price
            balance.enter("charge", -price, call.at_ms, call)
        if what == DEED:
            self.deeds.add(call.request_id)
        return self._keep(call, Outcome("answered", call.request_id, price))

    def _set_out(self, call: Wanted) -> Outcome | None:
        hold_id = self._errand(call)
        last = self.holds.get((call.account_id, hold_id))
        if last is not None and last.state == "captured":
            return self._keep(call, Outcome("answered", hold_id, 0, last.request_id))
        if last is not None and last.state == "held":
            return None
        price = self._price(call)
        if self._left(call.account_id, call.unit) < price:
            return SHORT
        self.holds[call.account_id, self._errand(call, is_new=True)] = Hold(
            call.unit, price, call.request_id, call.token_id, call.key
        )
        self._reserve(call)
        if price:
            balance = self.balances[call.account_id, call.unit]
            balance.held += price
            balance.enter("hold", -price, call.at_ms, call)
        return None

    def _second(self, call: Wanted) -> Outcome:
        """What was done outside is entered. Only a call that has not held for it may find the key
        taken meanwhile."""
        hold_id = self._errand(call)
        hold = self.holds[call.account_id, hold_id]
        repeated = self._repeated(call)
        if hold.request_id != call.request_id and repeated is not None:
            return repeated
        if hold.state == "held":
            state = "captured" if call.asked.what == TAKEN else "released"
            self.end_hold(call.account_id, hold_id, state, call.at_ms)
            charged = hold.amount
        else:
            charged = 0
        if hold.state == "released":
            return Outcome("answered", "refused")
        earlier = None if hold.request_id == call.request_id else hold.request_id
        return self._keep(call, Outcome("answered", hold_id, charged, earlier))

    def _errand(self, call: Wanted, *, is_new: bool = False) -> str:
        """The id of the last hold for an errand, or of the next."""
        count = 0
        while (call.account_id, f"{call.asked.number}.{count:03d}") in self.holds:
            count += 1
        return f"{call.asked.number}.{count if is_new else count - 1:03d}"

    def _repeated(self, call: Wanted) -> Outcome | None:
        kept = self.kept.get((call.account_id, call.key or ""))
        if call.key is None or kept is None or call.at_ms - kept.at_ms >= DAY_MS:
            return None
        if kept.asked != (call.operation, call.asked):
            return CONFLICT
        if kept.data is None:
            return None
        return Outcome("answered", kept.data, 0, kept.request_id)

    def _keep(self, call: Wanted, outcome: Outcome) -> Outcome:
        if call.key is not None and self._repeated(call) is None:
            asked = (call.operation, call.asked)
            self.kept[call.account_id, call.key] = Kept(
                outcome.replay_of or call.request_id, call.at_ms, asked, outcome.data
            )
        return outcome

    def _reserve(self, call: Wanted) -> None:
        if call.key is not None:
            asked = (call.operation, call.asked)
            self.kept[call.account_id, call.key] = Kept(call.request_id, call.at_ms, asked, None)

    def _left(self, account_id: str, unit: str) -> int:
        balance = self.balances.get((account_id, unit))
        return 0 if balance is None else balance.amount

    def _price(self, call: Wanted) -> int:
        return self.prices[call.account_id, call.operation]
