from server.metrics import Metrics


def samples(metrics: Metrics) -> dict[str, float]:
    body, _ = metrics.render()
    pairs = [line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in pairs}


def test_what_is_counted_is_rendered_for_prometheus() -> None:
    metrics = Metrics()
    metrics.deliveries.labels(source="github", status="accepted").inc()
    metrics.delivery_accept_seconds.observe(0.003)
    metrics.dispatch_backlog.set(4)
    metrics.dispatch_seconds.observe(0.02)
    metrics.verdicts.labels(stage="filters").inc(2)
    metrics.runs.labels(status="completed").inc()
    metrics.runs_waiting.set(1)
    metrics.steps.labels(type="delay", status="completed").inc()
    metrics.step_seconds.observe(0.2)
    metrics.writer_transactions.inc(3)
    metrics.writer_queue_depth.set(5)
    metrics.engine_recovered.inc()
    found = samples(metrics)
    expected = {
        'loops_deliveries_total{source="github",status="accepted"}': 1,
        'loops_delivery_accept_seconds_bucket{le="0.0025"}': 0,
        'loops_delivery_accept_seconds_bucket{le="0.005"}': 1,
        "loops_dispatch_backlog": 4,
        "loops_dispatch_seconds_count": 1,
        'loops_verdicts_total{stage="filters"}': 2,
        'loops_runs_total{status="completed"}': 1,
        "loops_runs_waiting": 1,
        'loops_steps_total{status="completed",type="delay"}': 1,
        "loops_step_seconds_sum": 0.2,
        "loops_writer_transactions_total": 3,
        "loops_writer_queue_depth": 5,
        "loops_engine_recovered_total": 1,
    }
    assert expected.items() <= found.items()
    assert not [name for name in found if "_created" in name]


def test_two_applications_in_one_interpreter_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.writer_transactions.inc()
    assert samples(one)["loops_writer_transactions_total"] == 1
    assert samples(other)["loops_writer_transactions_total"] == 0


def test_the_content_type_is_the_text_format() -> None:
    assert Metrics().render()[1].startswith("text/plain; version=0.0.4")
