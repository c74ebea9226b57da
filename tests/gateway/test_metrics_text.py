"""Prometheus's own library reads the metrics as they were meant."""

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tollway.telemetry.metrics import Metrics, merged, snapshot
from tollway.telemetry.requests import NO_IDS

pytestmark = pytest.mark.sqlite
ODD = 'a "quoted" \\ back\\nslash\nand a line, {in} braces 店'


def _used() -> Metrics:
    metrics = Metrics()
    for elapsed_s, code in ((0.001, 0), (0.003, 0), (60.0, 200)):
        metrics.answered(
            [(0.0, "", "orders", None, code, "SUCCESS", 1, elapsed_s, NO_IDS, False, False)]
        )
    metrics.token_asked(ODD)
    metrics.gauges.clock_offset_s = -0.25
    metrics.gauges.retention_unfinished["orders"] = True
    metrics.gauges.database.backup_at_s = 1_700_000_000
    return metrics


def _read(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = list(text_string_to_metric_families(text.decode()))
    assert all(each.type != "unknown" and each.documentation for each in families)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def test_values_and_labels_are_read_as_they_were_counted() -> None:
    found = _read(_used().render())
    assert found["tollway_tokens_asked_total", frozenset({("answer", ODD)})] == 1
    assert found["tollway_clock_offset_seconds", frozenset()] == -0.25
    assert found["tollway_backup_timestamp_seconds", frozenset()] == 1_700_000_000
    assert not any(name == "tollway_audit_timestamp_seconds" for name, _ in found)


def test_a_bucket_counts_what_is_at_most_its_bound() -> None:
    found = _read(_used().render())
    buckets = {
        float(dict(labels)["le"]): value
        for (name, labels), value in found.items()
        if name == "tollway_call_seconds_bucket"
    }
    assert [buckets[bound] for bound in (0.0005, 0.001, 0.0025, 0.005, 10, math.inf)] == [
        *(0, 1, 1, 2, 2, 3)
    ]
    of_orders = frozenset({("operation", "orders")})
    assert found["tollway_call_seconds_count", of_orders] == 3
    assert found["tollway_call_seconds_sum", of_orders] == pytest.approx(60.004)


def test_each_worker_has_its_samples_and_a_metric_is_described_once() -> None:
    text = merged({1: snapshot(_used()), 2: snapshot(_used())})
    found = _read(text)
    for worker in ("1", "2"):
        labels = {("operation", "orders"), ("code", "200"), ("reason", "SUCCESS")}
        assert found["tollway_calls_total", frozenset({*labels, ("worker", worker)})] == 1
        unfinished = frozenset({("kind", "orders"), ("worker", worker)})
        assert found["tollway_retention_unfinished", unfinished] == 1
    assert text.count(b"# TYPE tollway_calls_total counter\n") == 1
