"""What Prometheus reads: one registry an application, so that two in one process do not count each other's work."""

from collections.abc import Callable

import prometheus_client
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, Counter, Gauge, Histogram

from loops.runs.interpreter import Observer
from triggers.dispatch import BatchOutcome
from triggers.schedule.claim import Claimed

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_SLOW = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0)


class Metrics:
    """Counters, gauges and histograms of the service. Labels take words from closed sets alone, never ids or text."""

    def __init__(self) -> None:
        # When each series began is of no use here and doubles what is read; the switch is the library's, for all.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        self._held_back: list[Callable[[], None]] = []
        self.deliveries = Counter(
            "loops_deliveries", "Deliveries by source and answer", ["source", "status"], registry=registry
        )
        self.delivery_accept_seconds = Histogram(
            "loops_delivery_accept_seconds", "From the whole body to the commit", buckets=_FAST, registry=registry
        )
        self.dispatch_backlog = Gauge(
            "loops_dispatch_backlog", "Accepted deliveries that wait to be matched", registry=registry
        )
        self.dispatch_seconds = Histogram(
            "loops_dispatch_seconds", "Matching and starting one batch of deliveries", buckets=_FAST, registry=registry
        )
        self.verdicts = Counter("loops_verdicts", "Verdicts by the stage that gave them", ["stage"], registry=registry)
        self.github_lookups = Counter(
            "loops_github_lookups", "Questions to GitHub about a sender, by what they came to", ["outcome"],
            registry=registry,
        )  # fmt: skip
        self.redeliveries = Counter(
            "loops_redeliveries", "Deliveries that GitHub was asked to send again", ["outcome"], registry=registry
        )
        self.tool_calls = Counter(
            "loops_mcp_calls", "Calls of tools over MCP, by what they came to", ["tool", "outcome"], registry=registry
        )
        self.occurrences = Counter(
            "loops_schedule_occurrences", "Occurrences of schedules by what became of them", ["outcome"],
            registry=registry,
        )  # fmt: skip
        self.occurrence_delay_seconds = Histogram(
            "loops_schedule_delay_seconds", "From the time of an occurrence to its claim", buckets=_SLOW,
            registry=registry,
        )  # fmt: skip
        self.runs = Counter("loops_runs", "Runs by the status they ended with", ["status"], registry=registry)
        self.runs_waiting = Gauge(
            "loops_runs_waiting", "Runs that wait for a time, an event or a person", registry=registry
        )
        self.steps = Counter(
            "loops_steps", "Steps by type of action and outcome", ["type", "status"], registry=registry
        )
        self.step_seconds = Histogram("loops_step_seconds", "Work of one step", buckets=_SLOW, registry=registry)
        self.tasks = Counter("loops_tasks", "AI tasks by how they ended", ["ending"], registry=registry)
        self.writer_transactions = Counter(
            "loops_writer_transactions", "Transactions that the writer committed", registry=registry
        )
        self.writer_queue_depth = Gauge(
            "loops_writer_queue_depth", "Writes that wait for the writer", registry=registry
        )
        self.engine_recovered = Counter(
            "loops_engine_recovered", "Segments taken over from workers that stopped", registry=registry
        )

    def observer(self) -> Observer:
        """What counts the steps and the ends of runs."""

        def step_done(kind: str, status: str, seconds: float) -> None:
            self.steps.labels(kind, status).inc()
            self.step_seconds.observe(seconds)

        return Observer(step_done=step_done, run_over=lambda status: self.runs.labels(status).inc())

    def before_reading(self, hand_on: Callable[[], None]) -> None:
        """Call this whenever the metrics are read: for what is counted more cheaply than here."""
        self._held_back.append(hand_on)

    def render(self) -> tuple[bytes, str]:
        """The body of /metrics and its content type."""
        for hand_on in self._held_back:
            hand_on()
        return prometheus_client.generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4

    def dispatched(self, outcome: BatchOutcome, seconds: float) -> None:
        """Count a batch of deliveries that was dispatched."""
        self.dispatch_seconds.observe(seconds)
        for stage, count in outcome.stages.items():
            self.verdicts.labels(stage).inc(count)

    def occurred(self, claimed: Claimed) -> None:
        """Count occurrences that were claimed together."""
        for outcome, count in claimed.outcomes.items():
            self.occurrences.labels(outcome).inc(count)
        for delay in claimed.delays:
            self.occurrence_delay_seconds.observe(delay)
