"""What a recorded output comes to, through its dialect and the verdict, without any process."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from loops.agent.journal import MemoryJournal, Unobserved
from loops.agent.result import AgentResult
from loops.agent.tools.finalize import FieldType
from loops.agent.transcript import Transcript, Usage
from loops.tasks.runners.told import Dialect
from loops.tasks.runners.trace import Spent, Trace
from loops.tasks.runners.verdict import Came, Stop, verdict
from loops.tasks.workspace.sandbox import Ran
from tests.unit.agent.working import StepClock

FIXTURES = Path(__file__).parents[3] / "fixtures" / "runners"


@dataclass
class Reading:
    """Reads outputs. Every line uses 100 tokens in and 10 out, at `price` a line."""

    dialect: Dialect
    price: Decimal | None = Decimal("0.01")
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    lines: int = 0

    @property
    def spent(self) -> Spent:
        cost = None if self.price is None else self.price * self.lines
        return Spent(Usage(100 * self.lines, 10 * self.lines), cost, self.lines)

    async def of(
        self,
        output: bytes,
        fields: Mapping[str, FieldType] | None = None,
        *,
        code: int = 0,
        stop: Stop | None = None,
        **ran: object,
    ) -> AgentResult:
        """The result of a command that printed this and ended with `code`, or was ended by `stop`."""
        trace = Trace(Transcript("", "Go."), self.journal, Unobserved(), StepClock(0.5), lambda: self.spent)
        reader = self.dialect.reader(trace)
        for line in output.splitlines():
            self.lines += 1
            await reader.line(line)
        await reader.end()
        told = reader.told()
        await trace.end(None if told is None else told.cost)
        assert trace.transcript.rounds == tuple(self.journal.rounds.values())
        over = None if stop is not None else Ran(code, output, b"it said this at last", **ran)  # type: ignore[arg-type]
        return verdict(Came(told, over, stop, trace.transcript, trace.edits), fields or {})


def recorded(folder: str, name: str) -> bytes:
    """A recorded output."""
    return (FIXTURES / folder / f"{name}.jsonl").read_bytes()
