"""The alerts and the dashboard name metrics that exist, and Prometheus understands them."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.units import DEPLOY
from tests.docs.pages import REFERENCE, rows_of
from tollway.contract.reasons import Reason
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.sqlite
ALERTS = DEPLOY / "prometheus/alerts.yml"
DASHBOARD = DEPLOY / "grafana/dashboard.json"
with_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed"
)
# How often rules are evaluated: each minute of a day would take a minute and more. Over more than a
# day it is seldom, and what no rate is taken of is not sampled in between.
_OFTEN, _SELDOM = "5m", "10m"
# A series that sets off each alert, sampled every minute for a day or less.
_GROWS, _ONE, _ZERO = "0+1x1500", "1x1500", "0x1500"
# The highest bound below infinity: a histogram needs two.
_LONGEST = 'tollway_call_seconds_bucket{le="10.0", operation="orders"}'
FIRING = {
    "TollwayDown": ('up{job="tollway", instance="a"}', _ZERO),
    "TollwayNotReady": ('tollway_unready{reason="database_busy"}', _ONE),
    "TollwayUnexpectedErrors": ('tollway_calls_total{code="200", operation="orders"}', _GROWS),
    "TollwayDatabaseFails": ('tollway_calls_total{reason="COMMIT_IN_DOUBT", code="202"}', _GROWS),
    "TollwayCallsTimeOut": ('tollway_calls_total{reason="TIMED_OUT", code="101"}', _GROWS),
    "TollwaySlowCalls": ('tollway_call_seconds_bucket{le="+Inf", operation="orders"}', _GROWS),
    "TollwayConnectionsShort": ('tollway_database_connections_waiting{database="primary"}', _ONE),
    "TollwayReplicaUnused": ("tollway_replica_used", _ZERO),
    "TollwayClockWrong": ("tollway_clock_offset_seconds", "-2x1500"),
    "TollwayUpkeepStopped": ('tollway_upkeep_success_timestamp_seconds{step="months"}', _ZERO),
    "TollwaySweepBehind": ("tollway_kept_answers_oldest_seconds", "100000x1500"),
    "TollwayRetentionBehind": ('tollway_retention_unfinished{kind="orders"}', _ONE),
    "TollwayReceiptsDropped": ('tollway_receipts_dropped_total{cause="queue_full"}', _GROWS),
    "TollwayLogLinesDropped": ("tollway_log_lines_dropped_total", _GROWS),
    "TollwaySecretsGuessed": (
        'tollway_tokens_asked_total{answer="invalid_client"}',
        "0+10x1500",
    ),
    "TollwayPushesFail": ('tollway_pushes_total{kind="orders", outcome="unsigned"}', _GROWS),
    "TollwayRecordsRejected": (
        'tollway_pushed_records_total{kind="orders", result="rejected"}',
        _GROWS,
    ),
    "TollwayWaybillsOverdue": ("tollway_waybills_overdue", _ONE),
    "TollwayCarrierShut": ('tollway_carrier_shut{wp_code="YTO"}', _ONE),
    "TollwayNumbersLow": ('tollway_waybill_numbers_left{wp_code="YTO"}', "999x1500"),
    # Two days before the clock of these tests begins.
    "TollwayBackupMissing": ("tollway_backup_timestamp_seconds", "-172800x1500"),
    "TollwayAuditMissing": ("tollway_audit_timestamp_seconds", "-172800x1500"),
    "TollwayAuditFailed": ("tollway_audit_passed", _ZERO),
}
# What else its database says.
BESIDE = {"TollwayAuditFailed": {"tollway_audit_timestamp_seconds": _ONE}}
QUIET = {
    'up{job="tollway", instance="a"}': _ONE,
    'tollway_unready{reason="draining"}': _ONE,
    'tollway_calls_total{code="0", operation="orders", reason="SUCCESS"}': _GROWS,
    'tollway_calls_total{code="200", operation="orders", reason="INTERNAL"}': _ONE,
    'tollway_receipts_dropped_total{cause="too_fast"}': _GROWS,
    'tollway_pushes_total{kind="orders", outcome="stored"}': _GROWS,
    'tollway_pushed_records_total{kind="orders", result="stored"}': _GROWS,
    'tollway_pushed_records_total{kind="orders", result="rejected"}': _ONE,
    'tollway_waybill_numbers_left{wp_code="YTO"}': "1000x1500",
    "tollway_replica_used": _ONE,
    "tollway_clock_offset_seconds": "-0.5x1500",
    "tollway_kept_answers_oldest_seconds": "86400x1500",
    'tollway_upkeep_success_timestamp_seconds{step="months"}': "0+60x1500",
    'tollway_retention_unfinished{kind="orders"}': _ZERO,
    # The last night's, a day ago.
    "tollway_backup_timestamp_seconds": _ONE,
    "tollway_audit_timestamp_seconds": _ONE,
    "tollway_audit_passed": _ONE,
}


def _rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return list(group["rules"])


def _panels() -> list[dict[str, Any]]:
    return list(json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"])


def _expressions() -> list[str]:
    shown = [target["expr"] for panel in _panels() for target in panel.get("targets", ())]
    return [*(rule["expr"] for rule in _rules()), *shown]


def _exported() -> set[str]:
    """Every name that a scrape has samples of."""
    text = Metrics().render().decode()
    names: set[str] = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\w+)", text, re.MULTILINE):
        endings = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
        names |= {f"{name}{ending}" for ending in endings.get(kind, ("",))}
    return names


def test_every_metric_that_is_named_exists() -> None:
    named = set(re.findall(r"\btollway_\w+", " ".join(_expressions())))
    assert len(named) > 15
    assert named <= _exported()


def test_every_metric_is_on_the_dashboard() -> None:
    shown = " ".join(target["expr"] for panel in _panels() for target in panel.get("targets", ()))
    stems = {re.sub(r"_(?:bucket|sum|count|created)$", "", name) for name in _exported()}
    assert {stem for stem in stems if stem not in shown} == set()


def test_every_reason_that_is_named_exists() -> None:
    named = re.findall(r'reason=~?"([A-Z_|]+)"', " ".join(_expressions()))
    assert named
    assert {each for names in named for each in names.split("|")} <= set(Reason.__members__)


def test_every_alert_is_documented_and_no_other() -> None:
    documented = {row[0].strip("`") for row in rows_of(REFERENCE) if row[0].startswith("`Tollway")}
    assert documented == {rule["alert"] for rule in _rules()} == set(FIRING)


def _promtool(
    folder: Path,
    tests: list[dict[str, Any]],
    alerts: Collection[str] = FIRING,
    every: str = _OFTEN,
) -> subprocess.CompletedProcess[str]:
    """Has Prometheus test the rules of these alerts: all of them, over a day and more, would take
    ten times as long."""
    rules = folder / "rules.yml"
    chosen = [rule for rule in _rules() if rule["alert"] in alerts]
    assert len(chosen) == len(alerts)
    rules.write_text(json.dumps({"groups": [{"name": "chosen", "rules": chosen}]}))
    path = folder / "test.yml"
    content = {"rule_files": [str(rules)], "evaluation_interval": every, "tests": tests}
    path.write_text(json.dumps(content), encoding="utf-8")
    # It ends before it needs memory again.
    environment = {**os.environ, "GOGC": "off"}
    command = ["promtool", "test", "rules", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def _test(
    series: dict[str, str],
    expression: str,
    *samples: dict[str, object],
    within: str = "24h",
    interval: str = "1m",
) -> dict[str, Any]:
    return {
        "interval": interval,
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": expression, "eval_time": within, "exp_samples": list(samples)}
        ],
    }


def _within(alert: str) -> str:
    """What is behind with its work has six hours first."""
    return "7h" if alert == "TollwayRetentionBehind" else "1h"


@with_promtool
def test_every_alert_fires_when_it_should(tmp_path: Path) -> None:
    tests = [
        _test(
            {series: values, _LONGEST: _ZERO, **BESIDE.get(alert, {})},
            f'count by (alertname) (ALERTS{{alertname="{alert}", alertstate="firing"}})',
            {"labels": f'{{alertname="{alert}"}}', "value": 1},
            within=_within(alert),
        )
        for alert, (series, values) in FIRING.items()
    ]
    done = _promtool(tmp_path, tests)
    assert done.returncode == 0, done.stdout + done.stderr


@with_promtool
def test_a_source_that_heeds_retry_after_is_noticed_while_too_many_rejects_are_kept(
    tmp_path: Path,
) -> None:
    """It pushes once in ten minutes, and none of its wrong records counts as rejected."""
    full = {'tollway_pushes_total{kind="orders", outcome="rejects_full"}': "0x9 1x9 2x9 3x9 4x9"}
    done = _promtool(
        tmp_path,
        [_firing_once("TollwayRecordsRejected", full, within="45m")],
        ["TollwayRecordsRejected"],
    )
    assert done.returncode == 0, done.stdout + done.stderr


@with_promtool
def test_the_first_error_of_all_is_noticed(tmp_path: Path) -> None:
    """Its series begins with it, so that there is no increase."""
    alerts = ("TollwayUnexpectedErrors", "TollwayRecordsRejected")
    tests = [_firing_once(each, {FIRING[each][0]: "_x1438 1x10"}, within="24h") for each in alerts]
    done = _promtool(tmp_path, tests, alerts)
    assert done.returncode == 0, done.stdout + done.stderr


_OF_DATABASES = (
    "TollwayNumbersLow",
    "TollwayRetentionBehind",
    "TollwayBackupMissing",
    "TollwayAuditMissing",
    "TollwayAuditFailed",
)


def _of_node(series: str, node: str) -> str:
    name, _, labels = series.rstrip("}").partition("{")
    labels = labels or 'job="tollway"'
    return f'{name}{{{labels}, instance="{node}"}}'


def _firing_once(
    alert: str, series: dict[str, str], within: str = "", interval: str = "1m"
) -> dict[str, Any]:
    within = within or _within(alert)
    firing = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})'
    return _test(series, firing, {"labels": "{}", "value": 1}, within=within, interval=interval)


def _of_nodes(alert: str, nodes: str) -> dict[str, str]:
    """What sets an alert off, on each of these nodes."""
    fired = dict([FIRING[alert]]) | BESIDE.get(alert, {})
    return {_of_node(series, node): fired[series] for series in fired for node in nodes}


@with_promtool
def test_one_database_that_is_well_hides_no_other(tmp_path: Path) -> None:
    tests = []
    for alert in _OF_DATABASES:
        series = [FIRING[alert][0], *BESIDE.get(alert, {})]
        well = {_of_node(each, "b"): QUIET[each] for each in series}
        tests.append(_firing_once(alert, _of_nodes(alert, "a") | well))
    done = _promtool(tmp_path, tests, _OF_DATABASES)
    assert done.returncode == 0, done.stdout + done.stderr


@with_promtool
def test_the_nodes_of_one_database_make_one_alert_that_names_them(tmp_path: Path) -> None:
    tests = {alert: _firing_once(alert, _of_nodes(alert, "abc")) for alert in _OF_DATABASES}
    for alert in ("TollwayBackupMissing", "TollwayAuditMissing", "TollwayAuditFailed"):
        (rule,) = (each for each in _rules() if each["alert"] == alert)
        last = "1" if alert in BESIDE else "-172800"
        text = re.sub("{{.*}}", "a, b, c", rule["annotations"]["summary"])
        assert text != rule["annotations"]["summary"]
        fired = {
            "exp_labels": {"severity": rule["labels"]["severity"], "last": last},
            "exp_annotations": {"summary": text},
        }
        wanted = {"eval_time": _within(alert), "alertname": alert, "exp_alerts": [fired]}
        tests[alert]["alert_rule_test"] = [wanted]
    done = _promtool(tmp_path, [*tests.values()], _OF_DATABASES)
    assert done.returncode == 0, done.stdout + done.stderr


@with_promtool
def test_a_new_database_has_36_hours_for_its_first_backup_and_audit(tmp_path: Path) -> None:
    tests = []
    alerts = ("TollwayBackupMissing", "TollwayAuditMissing")
    for alert in alerts:
        never = {_of_node(FIRING[alert][0], node): "_x6 0x240" for node in "ab"}
        tests.append(_firing_once(alert, never, within="38h", interval=_SELDOM))
        early = {"expr": f'ALERTS{{alertname="{alert}"}}', "eval_time": "36h50m"}
        tests[-1]["promql_expr_test"].append({**early, "exp_samples": []})
        # Another database was new then, and had its first one since.
        other = {_of_node(FIRING[alert][0], "a"): "0x60 129600x240"}
        new = {_of_node(FIRING[alert][0], "b"): "_x222 0x60"}
        none = _test(other | new, f'ALERTS{{alertname="{alert}"}}', within="38h", interval=_SELDOM)
        tests.append(none)
    done = _promtool(tmp_path, tests, alerts, _SELDOM)
    assert done.returncode == 0, done.stdout + done.stderr


@with_promtool
def test_no_alert_fires_when_all_is_well(tmp_path: Path) -> None:
    done = _promtool(tmp_path, [_test(QUIET, "ALERTS")])
    assert done.returncode == 0, done.stdout + done.stderr


@with_promtool
def test_prometheus_understands_every_expression(tmp_path: Path) -> None:
    rules = [
        {"record": f"shown:{number}", "expr": expression.replace("$__rate_interval", "5m")}
        for number, expression in enumerate(_expressions())
    ]
    path = tmp_path / "shown.yml"
    path.write_text(json.dumps({"groups": [{"name": "shown", "rules": rules}]}), encoding="utf-8")
    checked = [str(ALERTS), str(path)]
    done = subprocess.run(
        ["promtool", "check", "rules", *checked], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in _panels():
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in _panels()]
    assert len(set(ids)) == len(ids)
