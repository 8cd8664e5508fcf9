"""The files in `deploy`: their commands are ours, and what they ask for is measured.

`make deploy-check` checks them with the tools of their formats.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from gpt_oss_harmony.cli.configuration import Configuration
from gpt_oss_harmony.cli.serve import SERVE
from gpt_oss_harmony.server import Settings
from gpt_oss_harmony.server.metrics import Metrics

DEPLOY = Path(__file__).parents[1] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "harmony.json"

METRICS = Metrics()
COLLECTORS = {
    collector for collector in vars(METRICS).values() if hasattr(collector, "_labelnames")
}
FAMILIES = {family.name: family.type for family in METRICS._registry.collect()}
LABELS = {label for collector in COLLECTORS for label in collector._labelnames}
SERIES = {
    name + suffix
    for name, kind in FAMILIES.items()
    for suffix in {"counter": ["_total"], "histogram": ["_bucket"], "gauge": [""]}[kind]
}


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def commands() -> dict[str, list[str]]:
    """The commands of the server, by the file they stand in."""
    (compose,) = documents("compose.yaml")
    (deployment,) = (
        document
        for document in documents("kubernetes.yaml")
        if (document["kind"], document["metadata"]["name"]) == ("Deployment", "harmony")
    )
    unit = (DEPLOY / "harmony.service").read_text(encoding="utf-8")
    started = re.search(r"^ExecStart=\S+/harmony (.+)$", unit, re.MULTILINE)
    assert started is not None
    return {
        "compose.yaml": compose["services"]["harmony-1"]["command"],
        "kubernetes.yaml": deployment["spec"]["template"]["spec"]["containers"][0]["args"],
        "harmony.service": shlex.split(started[1]),
    }


@pytest.mark.parametrize("file", ["compose.yaml", "kubernetes.yaml", "harmony.service"])
def test_the_command_has_such_options(file: str) -> None:
    command, *options = commands()[file]
    assert command == SERVE.name
    assert Configuration(SERVE, options, {}).arguments.log_format == "json"


def test_servers_have_time_to_end_before_they_are_killed() -> None:
    seconds = Settings().shutdown_seconds + 5  # and as long for their clients
    (compose,) = documents("compose.yaml")
    pod = documents("kubernetes.yaml")[0]["spec"]["template"]["spec"]
    unit = (DEPLOY / "harmony.service").read_text(encoding="utf-8")
    stops = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert stops is not None
    before = 5  # of the pod's hook
    assert int(compose["services"]["harmony-1"]["stop_grace_period"].rstrip("s")) > seconds
    assert pod["terminationGracePeriodSeconds"] > seconds + before
    assert int(stops[1]) > seconds


def test_bodies_have_the_same_limit_at_the_proxy() -> None:
    nginx = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    limit = re.search(r"client_max_body_size (\d+)m;", nginx)
    assert limit is not None
    assert int(limit[1]) * 1024 * 1024 == Settings().max_request_bytes


# Metrics


def dashboard_queries() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def rules() -> list[dict[str, Any]]:
    (file,) = documents("prometheus/rules.yaml")
    return [rule for group in file["groups"] for rule in group["rules"]]


def asked_series(query: str) -> set[str]:
    return set(re.findall(r"\bharmony_\w+", query))


def asked_labels(query: str) -> set[str]:
    grouped = re.findall(r"\bby \(([^)]*)\)", query)
    selected = re.findall(r"[{,]\s*(\w+)\s*=", query)
    return {label.strip() for labels in grouped for label in labels.split(",")} | set(selected)


@pytest.mark.parametrize("query", [*dashboard_queries(), *(rule["expr"] for rule in rules())])
def test_queries_ask_for_what_there_is(query: str) -> None:
    assert asked_series(query) <= SERIES
    assert asked_labels(query) <= LABELS | {"le", "instance", "job"}


def test_rules_build_on_each_other() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    used = {name for rule in rules() for name in re.findall(r"harmony:[\w:]+", rule["expr"])}
    assert used <= recorded


def test_every_alert_is_tested() -> None:
    (file,) = documents("prometheus/rules.test.yaml")
    tested = {alert["alertname"] for test in file["tests"] for alert in test["alert_rule_test"]}
    assert tested == {rule["alert"] for rule in rules() if "alert" in rule}


def test_the_dashboard_shows_every_metric() -> None:
    shown = set().union(*map(asked_series, dashboard_queries()))
    assert shown == SERIES
