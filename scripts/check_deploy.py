"""Check the files in `deploy` with the tools of their formats.

hadolint, check-jsonschema, kubernetes-validate and shellcheck are in the environment of this
script; promtool, nginx, systemd-analyze and docker are run where the system has them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DEPLOY = Path(__file__).parents[1] / "deploy"


def main() -> int:
    """Run each tool; return 1 if one finds something."""
    os.environ["PATH"] = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"]
    )
    with tempfile.TemporaryDirectory() as folder:
        nginx, unit = Path(folder, "nginx.conf"), Path(folder, "harmony.service")
        # Names of hosts and programs that are not on this machine.
        hosts = re.sub(r"server harmony-\d:", "server 127.0.0.1:", _text("nginx.conf"))
        nginx.write_text(hosts, encoding="utf-8")
        program = re.sub(r"/opt/\S+/harmony", "/bin/true", _text("harmony.service"))
        unit.write_text(program, encoding="utf-8")
        compose = "compose.yaml"
        checks = [
            ["hadolint", "Dockerfile"],
            ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", compose],
            ["docker", "compose", "--file", compose, "config", "--quiet"],
            ["kubernetes-validate", "--strict", "kubernetes.yaml"],
            ["shellcheck", "vllm-on-two-machines.sh"],
            ["promtool", "check", "config", "prometheus/prometheus.yaml"],
            ["nginx", "-t", "-c", str(nginx)],
            ["systemd-analyze", "verify", str(unit)],
        ]
        results = {" ".join(check[:2]): _run(check) for check in checks}
    for name, result in results.items():
        print(f"{result:8} {name}")
    return int("failed" in results.values())


def _text(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def _run(command: list[str]) -> str:
    if not shutil.which(command[0]) or (command[0] == "docker" and not _has_compose()):
        return "not here"
    secrets = ("HARMONY_API_KEY", "POSTGRES_PASSWORD", "GRAFANA_PASSWORD")
    environment = {**os.environ, **dict.fromkeys(secrets, "x")}
    return "failed" if subprocess.call(command, cwd=DEPLOY, env=environment) else "passed"


def _has_compose() -> bool:
    return not subprocess.run(["docker", "compose", "version"], capture_output=True).returncode


if __name__ == "__main__":
    sys.exit(main())
