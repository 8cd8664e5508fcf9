"""Write what each distribution contains and requires, as CycloneDX: ``make sbom``.

    python scripts/sbom.py [--check]

Each wheel has the file in its folder ``sboms`` (PEP 770). What only extras require has the scope
*optional*. With ``--check`` nothing is written, and
the exit status is 1 if a file is not what the projects say.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = (ROOT, *(ROOT / "packages" / name for name in ("drop_in", "vllm", "conformance")))
FILE = "sbom.cdx.json"

DATA = ROOT / "src" / "gpt_oss_harmony" / "data"
CONTAINED: dict[str, tuple[tuple[str, str, str, Path], ...]] = {
    "gpt-oss-harmony": (
        ("o200k_base", "data", "MIT", DATA / "o200k_base.vocab"),
        (
            "demo-model",
            "machine-learning-model",
            "Apache-2.0",
            DATA / "demo_model/weights.safetensors",
        ),
    )
}
"""By distribution: the name, kind, licence and file of what it contains beside its own code."""


def sbom(project: Path) -> dict[str, Any]:
    """Return the bill of materials of a project: itself, what it contains, what it requires."""
    toml: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    about = toml.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
    name, version = about["name"], about["version"]
    reference = f"pkg:pypi/{name}@{version}"
    contained = [
        {
            "type": kind,
            "bom-ref": f"{reference}#{part}",
            "name": part,
            "licenses": [{"expression": licence}],
            "hashes": [
                {"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}
            ],
        }
        for part, kind, licence, file in CONTAINED.get(name, ())
    ]
    extras = {None: about.get("dependencies", ()), **about.get("optional-dependencies", {})}
    required = list(_requirements(name, extras))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": reference,
                "name": name,
                "version": version,
                "licenses": [{"expression": about["license"]}],
                "purl": reference,
            }
        },
        "components": contained + required,
        "dependencies": [
            {"ref": reference, "dependsOn": [one["bom-ref"] for one in contained + required]}
        ],
    }


def _requirements(
    distribution: str, extras: Mapping[str | None, Iterable[str]]
) -> Iterable[dict[str, Any]]:
    """Return the libraries that a distribution requires, by extra, and does not contain.

    >>> extras = {None: [], "numpy": ["numpy>=1.24"], "all": ["harmony[numpy]"]}
    >>> (one,) = _requirements("harmony", extras)
    >>> one["scope"], one["properties"]
    ('optional', [{'name': 'requirement', 'value': "numpy>=1.24; extra == 'numpy'"}])
    """
    found: dict[str, dict[str, Any]] = {}
    for extra, texts in extras.items():
        for text in texts:
            (name,) = re.findall(r"^[\w.-]+", text)
            if name == distribution:
                continue  # its other extras
            purl = f"pkg:pypi/{name}"
            library = {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "scope": "required" if extra is None else "optional",
                "purl": purl,
                "properties": [],
            }
            if extra is not None:
                bare, _, marker = text.partition("; ")
                text = f"{bare}; {f'({marker}) and ' if marker else ''}extra == '{extra}'"
            requirement = {"name": "requirement", "value": text}
            found.setdefault(name, library)["properties"].append(requirement)
    return found.values()


def main() -> int:
    """Write the files, or compare them."""
    changed = 0
    for project in PROJECTS:
        text = json.dumps(sbom(project), indent=2) + "\n"
        file = project / FILE
        if file.exists() and file.read_text("utf-8") == text:
            continue
        if "--check" in sys.argv:
            print(f"{file.relative_to(ROOT)} is behind pyproject.toml; run `make sbom`")
            changed = 1
        else:
            file.write_text(text, encoding="utf-8")
    return changed


if __name__ == "__main__":
    sys.exit(main())
