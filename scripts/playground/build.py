"""Gather the playground into ``site/playground``: the inspector's page, Python and a model for it.

    python scripts/playground/build.py [--lock]

``lock.json`` names each download with its SHA-256; another file is refused. Downloads are kept in
``build/playground``. Node compiles the modules in the Python that the page will run, so that the
page need not. ``--lock`` instead looks the files of the named versions up and writes their hashes.

The files of Python lie in a folder that is named after their hashes, with a list of them: a page
never mixes two versions, and browsers may keep them for ever.
"""

from __future__ import annotations

import argparse
import hashlib
import html
import json
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

from gpt_oss_harmony.engines.demo_model import word_codes
from gpt_oss_harmony.tokens.special_tokens import CALL, RETURN

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "src" / "gpt_oss_harmony"
PAGE = PACKAGE / "inspector" / "page"
DOWNLOADS = ROOT / "build" / "playground"
SITE = ROOT / "site" / "playground"
LOCK = HERE / "lock.json"
MADE = DOWNLOADS / "made.json"  # the scripts of the page that the library makes

ROOMS = (
    *("conversation", "tokens", "typescript", "rendering", "parsing", "apis", "engines"),
    *("grammar", "training", "inspector"),
)
"""The parts of the library that the calls of the page import, or may import."""

PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
"""The files of Pyodide that a browser needs."""

POLICY = (
    # Pyodide compiles WebAssembly, which `wasm-unsafe-eval` allows, and evaluates no JavaScript.
    # The worker starts from a blob, so that it has this policy, too: see page/python.js.
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'"
)


class BuildError(Exception):
    """The playground cannot be built."""


def read_lock() -> list[dict[str, Any]]:
    packages: list[dict[str, Any]] = json.loads(LOCK.read_text("utf-8"))["packages"]
    return packages


def downloaded(package: dict[str, Any], folder: Path = DOWNLOADS) -> Path:
    """The file of a package; it is downloaded unless it is there, and refused with another hash."""
    path = folder / str(package["url"]).rpartition("/")[2]
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        print(f"downloading {path.name}, {package['size']:,} bytes")
        with urllib.request.urlopen(package["url"], timeout=300) as answer:
            path.write_bytes(answer.read())
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != package["sha256"]:
        path.unlink()
        raise BuildError(f"{path.name} has the SHA-256 {found}, not {package['sha256']}")
    return path


def unpack_pyodide(archive: Path, target: Path) -> None:
    """Take the files that a browser needs from the package of npm."""
    with tarfile.open(archive) as package:
        for name in (*PYODIDE, "pyodide-lock.json"):
            member = package.extractfile(f"package/{name}")
            if member is None:
                raise BuildError(f"{archive.name} has no {name}")
            (target / name).write_bytes(member.read())
    # The list of all packages of Pyodide's own host, of which none is used.
    lock = json.loads((target / "pyodide-lock.json").read_text("utf-8"))
    text = json.dumps({"info": lock["info"], "packages": {}})
    (target / "pyodide-lock.json").write_text(text, encoding="utf-8")


def write_demo_model(file: Path) -> None:
    """Write the packaged weights with their config, and the codes of words, which NumPy makes."""
    folder = PACKAGE / "data" / "demo_model"
    packaged = (folder / "weights.safetensors").read_bytes()
    begin = 8 + int.from_bytes(packaged[:8], "little")
    header, content = json.loads(packaged[8:begin]), packaged[begin:]
    codes, kinds = word_codes()
    coded = codes.any(axis=1).nonzero()[0]
    for name, kind, values in (
        ("coded_tokens", "I32", coded.astype("<i4")),
        ("codes", "U8", np.packbits(codes[coded] > 0, axis=1)),
        ("token_kinds", "U8", kinds.astype("u1")),
    ):
        offsets = [len(content), len(content) + values.nbytes]
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": offsets}
        content += values.tobytes()
    settings = json.loads((folder / "config.json").read_text("utf-8"))
    settings["stop_tokens"] = [RETURN, CALL]
    text = json.dumps({**header, "__metadata__": {"config": json.dumps(settings)}}).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + content)


def write_library(target: Path) -> None:
    """Copy what the page needs of the library."""
    package = target / PACKAGE.name
    shutil.rmtree(target, ignore_errors=True)
    package.mkdir(parents=True)
    for path in [*PACKAGE.glob("*.py"), *(PACKAGE / "data").glob("*o200k_base*")]:
        (package / path.relative_to(PACKAGE)).parent.mkdir(exist_ok=True)
        shutil.copyfile(path, package / path.relative_to(PACKAGE))
    for room in ROOMS:
        for path in (PACKAGE / room).rglob("*.py"):
            copied = package / path.relative_to(PACKAGE)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)


def compile_packages(python: Path, wheels: list[Path], library: Path, archive: Path) -> None:
    """Compile all modules with the Python of the page, and write them as one archive."""
    files = (python, archive, MADE, library, *wheels)
    command = ["node", str(HERE / "compile.mjs"), *map(str, files)]
    subprocess.run(command, check=True)


def write_python() -> tuple[str, int]:
    """Write the folder of Python; return its name and the number of bytes in it."""
    pyodide, *wheels = ((package, downloaded(package)) for package in read_lock())
    draft = DOWNLOADS / "python"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    unpack_pyodide(pyodide[1], draft)
    write_library(DOWNLOADS / "library")
    compile_packages(
        draft, [path for _, path in wheels], DOWNLOADS / "library", draft / "packages.zip"
    )
    write_demo_model(draft / "demo-model.safetensors")
    files = [
        {
            "name": path.name,
            "size": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(draft.iterdir())
    ]
    listed = json.dumps({"files": files}, indent=1)
    (draft / "files.json").write_text(listed + "\n", encoding="utf-8")
    name = f"python-{hashlib.sha256(listed.encode()).hexdigest()[:16]}"
    for old in SITE.glob("python-*"):
        shutil.rmtree(old)
    shutil.copytree(draft, SITE / name)
    return name, sum(int(str(file["size"])) for file in files)


def write_page(python: str) -> None:
    """Copy the page; its document names the folder of Python, and has a policy of its own."""
    scripts = SITE / "inspector"
    shutil.rmtree(scripts, ignore_errors=True)
    scripts.mkdir(parents=True)
    for path in [
        *PAGE.glob("*.js"),
        *PAGE.glob("*.css"),
        *PAGE.glob("*.json"),
        HERE / "worker.js",
        HERE / "demo-model.js",
    ]:
        shutil.copyfile(path, scripts / path.name)
    for name, text in json.loads(MADE.read_text("utf-8")).items():
        (scripts / name).write_text(text, encoding="utf-8")
    files = [f"inspector/{path.name}" for path in sorted(scripts.iterdir())]
    worker = (HERE / "service-worker.js").read_text("utf-8")
    empty = "const FILES = [];"
    if worker.count(empty) != 1:
        raise BuildError(f"service-worker.js must have {empty} once")
    files = ["", *files, f"{python}/files.json"]
    worker = worker.replace(empty, f"const FILES = {json.dumps(files)};")
    (SITE / "service-worker.js").write_text(worker, encoding="utf-8")
    document = (PAGE / "index.html").read_text("utf-8")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY)}" />'
    changes = {
        '<html lang="en">': f'<html lang="en" data-python="{python}">',
        '<meta charset="utf-8" />': f'<meta charset="utf-8" />\n    {policy}',
        "<title>harmony inspect</title>": "<title>harmony playground</title>",
    }
    for before, after in changes.items():
        if document.count(before) != 1:
            raise BuildError(f"index.html must have {before} once")
        document = document.replace(before, after)
    (SITE / "index.html").write_text(document, encoding="utf-8")


def write_lock() -> None:
    """Look up the files of the versions in the lock, and write their addresses and hashes."""
    packages = []
    for package in read_lock():
        name, version = package["name"], package["version"]
        if name == "pyodide":
            url = f"https://registry.npmjs.org/pyodide/-/pyodide-{version}.tgz"
        else:
            tag = (
                "cp314-cp314-pyemscripten_2026_0_wasm32"
                if name == "pydantic_core"
                else "py3-none-any"
            )
            url = wheel_url(name, f"{name}-{version}-{tag}.whl")
        with urllib.request.urlopen(url, timeout=300) as answer:
            content = answer.read()
        sha256 = hashlib.sha256(content).hexdigest()
        packages.append(package | {"url": url, "size": len(content), "sha256": sha256})
    LOCK.write_text(json.dumps({"packages": packages}, indent=2) + "\n", encoding="utf-8")


def wheel_url(name: str, file: str) -> str:
    """The address of a wheel on PyPI."""
    request = urllib.request.Request(
        f"https://pypi.org/simple/{re.sub('[-_.]+', '-', name)}/",
        headers={"Accept": "application/vnd.pypi.simple.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        files = json.load(answer)["files"]
    found = [entry["url"] for entry in files if entry["filename"] == file]
    if not found:
        raise BuildError(f"PyPI has no {file}")
    return str(found[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lock", action="store_true", help="write lock.json for its versions")
    if parser.parse_args().lock:
        write_lock()
        return 0
    SITE.mkdir(parents=True, exist_ok=True)
    try:
        python, size = write_python()
        write_page(python)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{SITE.relative_to(ROOT)}: {size:,} bytes of Python in {python}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
