"""How sandboxes are started and spoken to; what is tried from inside is in test_sandbox_escape."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import operator
import os
import re
import select
import struct
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt_oss_harmony.installation import requirement
from gpt_oss_harmony.tools.python.sandbox import (
    Container,
    Isolation,
    Limits,
    Sandbox,
    SandboxError,
    SandboxGone,
    SandboxMaker,
)
from gpt_oss_harmony.tools.python.sandbox import sandbox as sandbox_module
from gpt_oss_harmony.tools.python.sandbox.agent.cell_output import Output
from gpt_oss_harmony.tools.python.sandbox.agent.requests import Folder
from gpt_oss_harmony.tools.python.sandbox.bubblewrap import bubblewrap_launch, find_bubblewrap
from gpt_oss_harmony.tools.python.sandbox.isolation import (
    container_launch,
)
from gpt_oss_harmony.tools.python.sandbox.launch import (
    _PROBE,
    BOOTSTRAP,
    Launch,
    PythonEnvironment,
    find_python,
)
from gpt_oss_harmony.tools.python.sandbox.limits import ControlGroup, delegated_group, process_tree
from gpt_oss_harmony.tools.python.sandbox.sandbox import FrameError, pack_frame, read_frame
from gpt_oss_harmony.tools.python.sandbox.system_calls import system_call_filter
from support.notebooks import conversation, false_agent, needs_bubblewrap

LIMITS = Limits()


GREET = "ask(); answer(b'{\"id\": 1}')\n"

MISBEHAVIOUR = {
    "too large": "os.write(1, struct.pack('>II', 1 << 30, 0)); ask()",
    "too much data": "os.write(1, struct.pack('>II', 2, 1 << 30)); ask()",
    "no JSON": "answer(b'{'); ask()",
    "no object": "answer(b'[]'); ask()",
    "deep": "answer(b'[' * 1_000_000); ask()",
    "no text": "answer(b'\\xff'); ask()",
    "an odd id": "answer(b'{\"id\": []}'); ask()",
    "an answer to no request": "answer(b'{\"id\": 77}'); ask()",
    "an answer to a notice": "answer(b'{\"id\": 0}'); ask()",
    "the same answer again": "answer(b'{\"id\": 1}'); ask()",
    "half a frame": "os.write(1, b'1')",
    "silence": "",
}


@pytest.mark.parametrize("program", MISBEHAVIOUR.values(), ids=MISBEHAVIOUR)
def test_an_agent_that_misbehaves_is_ended(program: str) -> None:
    async def go() -> None:
        sandbox = await Sandbox.start(false_agent(GREET + program), LIMITS)
        with pytest.raises(SandboxGone):
            await sandbox.request("list")
        assert sandbox.has_ended
        with pytest.raises(SandboxGone):
            await sandbox.request("list")
        await sandbox.close()

    asyncio.run(go())


def test_an_agent_that_does_not_answer_is_ended() -> None:
    async def go() -> None:
        sandbox = await Sandbox.start(false_agent(GREET + "while True: ask()"), LIMITS)
        with pytest.raises(SandboxGone, match="it did not answer"):
            await sandbox.request("list", seconds=0.01)
        await sandbox.close()

    asyncio.run(go())


def test_answers_are_given_to_those_who_asked() -> None:
    program = (
        "first, second = ask(), ask()\n"
        "for got, data in (second, first):\n"
        "    answer(json.dumps({'id': got['id'], 'op': got['op']}).encode(), data * 2)\n"
        "ask()"
    )

    async def go() -> None:
        sandbox = await Sandbox.start(false_agent(GREET + program), LIMITS)
        one, two = await asyncio.gather(
            sandbox.request("one", data=b"1"), sandbox.request("two", data=b"2")
        )
        assert (one["op"], one["data"]) == ("one", b"11")
        assert (two["op"], two["data"]) == ("two", b"22")
        await sandbox.close()

    asyncio.run(go())


NOT_STARTED = {
    "no such program": (Launch(("/nowhere/bwrap",), {}, "/"), "/nowhere/bwrap cannot be run"),
    "it fails": (Launch((sys.executable, "-c", "import sys; sys.exit('why')"), {}, "/"), "why"),
    "it refuses": (false_agent('ask(); answer(b\'{"id": 1, "error": "no kernel"}\')'), "no kernel"),
}


@pytest.mark.parametrize(("launch", "why"), NOT_STARTED.values(), ids=NOT_STARTED)
def test_says_why_it_did_not_start(launch: Launch, why: str) -> None:
    with pytest.raises(SandboxError, match=why):
        asyncio.run(Sandbox.start(launch, LIMITS))


def test_there_is_always_a_sandbox_unless_none_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for isolation in (Isolation.AUTO, Isolation.BUBBLEWRAP):
        with pytest.raises(SandboxError, match=r"install\s+bubblewrap 0.8 or newer"):
            asyncio.run(SandboxMaker(LIMITS, isolation=isolation).make())
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho bubblewrap 0.6.1\n")
    old.chmod(0o755)
    assert find_bubblewrap() is None
    old.write_text("#!/bin/sh\necho bubblewrap 0.11.0\n")
    assert find_bubblewrap() == str(old)
    with pytest.raises(SandboxError, match="name its image"):
        asyncio.run(SandboxMaker(LIMITS, isolation=Isolation.CONTAINER).make())
    with pytest.raises(SandboxError, match="docker cannot be run"):
        asyncio.run(SandboxMaker(LIMITS, container=Container("notebook")).make())


def test_a_sandbox_needs_a_python_with_a_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    with pytest.raises(SandboxError, match="is not a Python that runs"):
        find_python(str(program))
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    program.chmod(0o755)
    with pytest.raises(SandboxError, match=r"lacks .*: run: .* install ipykernel jupyter_client$"):
        find_python(str(program))
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(
        SandboxError, match=rf"lacks .*: run: .* install {re.escape(requirement('tools'))}$"
    ):
        find_python()


@needs_bubblewrap
def test_a_script_that_runs_a_python_shows_nothing_of_its_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home" / "me"
    (home / "bin").mkdir(parents=True)
    (home / "secret").write_text("secret")
    (home / "bin" / "secret").write_text("secret")
    program = home / "bin" / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    python = find_python("~/bin/python")
    assert python.program == sys.executable
    assert not any(Path(path).is_relative_to(home) for path in python.needed)
    assert not any(home.is_relative_to(path) for path in python.needed)
    with conversation(python="~/bin/python") as begun:
        assert begun.text(f"import os; os.path.exists({str(home)!r})") == "False"


PREFIXES = ["/", "/home", "/home/anyone", "~", "~/..", "/root"]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_python_in_a_home_folder_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, prefix: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = os.path.expanduser(prefix)
    python = PythonEnvironment(f"{folder}/bin/python", (sys.prefix,), (sys.prefix, folder))
    with pytest.raises(SandboxError, match=r"which a notebook must not see: make an environment"):
        bubblewrap_launch("bwrap", python, LIMITS)


def test_a_prefix_that_others_share_is_not_shown_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such as ~/.local: only a virtual environment has its folder to itself."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    for folder in ("bin", "lib", "share/keyrings"):
        (tmp_path / folder).mkdir(parents=True)
    probed = json.loads(_probed())
    below = [path for path in probed["needed"] if path.startswith(str(tmp_path))]
    assert sorted(below) == [str(tmp_path / "bin"), str(tmp_path / "lib")]
    (tmp_path / "pyvenv.cfg").touch()
    assert str(tmp_path) in json.loads(_probed())["needed"]


def _probed() -> str:
    written = io.StringIO()
    with redirect_stdout(written):
        exec(_PROBE, {})
    return written.getvalue()


def test_without_a_sandbox_code_runs_all_the_same() -> None:
    async def go() -> None:
        sandbox = await SandboxMaker(LIMITS, isolation=Isolation.NONE).make()
        run = {"characters": 1000, "image_bytes": 0}
        await sandbox.request("ready")
        answer = await sandbox.run(code="import os; print(os.getcwd())", **run)
        folder = answer["first"].strip()
        assert Path(folder).is_dir()
        await sandbox.request("put", path="a/b", offset=0, data=b"1")
        answer = await sandbox.run(
            code="os.symlink('/etc/passwd', 'link')\nopen('a/b').read()", **run
        )
        assert answer["first"] == "'1'\n"
        assert answer["files"] == []
        with pytest.raises(OSError, match="symbolic links"):
            await sandbox.request("get", path="link", offset=0, size=10)
        with pytest.raises(OSError, match="No such file"):
            await sandbox.request("get", path="gone", offset=0, size=10)
        await sandbox.close()
        assert not Path(folder).exists()

    asyncio.run(go())


def test_everything_ends_with_standard_input() -> None:
    """This is what ends a container, whose engine does not end with the server."""

    async def go() -> None:
        sandbox = await SandboxMaker(LIMITS, isolation=Isolation.NONE).make()
        ends = [os.pidfd_open(process) for process in process_tree(sandbox._process.pid)]
        assert len(ends) == 2  # the agent and the kernel
        running = asyncio.create_task(sandbox.run(code="while True: pass", characters=9))
        await asyncio.sleep(0)
        assert sandbox._process.stdin is not None
        sandbox._process.stdin.close()
        for end in ends:
            assert (await asyncio.to_thread(select.select, [end], [], [], 10))[0]
            os.close(end)
        with pytest.raises(SandboxGone):
            await running
        await sandbox.close()

    asyncio.run(go())


def test_the_command_line_of_a_container() -> None:
    container = Container("notebook:1", program="podman", options=("--runtime=runsc",))
    launch = container_launch(container, Limits(memory=1 << 30, disk=1 << 28, temporary=1 << 26))
    command = list(launch.command)
    name = command[command.index("--name") + 1]
    assert launch.end_command == ("podman", "kill", name)
    settings = [part for part in command if part.startswith("--env")]
    at = command.index("--env")
    assert command[:at] == [
        "podman",
        "run",
        "--rm",
        "--interactive",
        *("--pull", "never"),
        *("--name", name),
        *("--network", "none"),
        *("--hostname", "notebook"),
        *("--ipc", "private"),
        "--read-only",
        *("--user", "65534:65534"),
        *("--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges"),
        *("--memory", "1476395008"),
        *("--memory-swap", "1476395008"),
        *("--pids-limit", "128"),
        *("--shm-size", "67108864"),
        *("--tmpfs", "/tmp:rw,nosuid,nodev,size=67108864,mode=1777"),
        *("--tmpfs", "/mnt/data:rw,nosuid,nodev,size=268435456,mode=1777"),
        *("--workdir", "/mnt/data"),
        *("--log-driver", "none"),
    ]
    assert command[at + 2 * len(settings) :] == [
        *("--entrypoint", "python3"),
        "--runtime=runsc",
        *("notebook:1", "-I", "-c", BOOTSTRAP),
    ]
    assert not any(variable in " ".join(command) for variable in ("SECRET", "KEY="))


@needs_bubblewrap
@pytest.mark.parametrize("as_root", [True, False])
def test_the_command_line_of_bubblewrap(as_root: bool) -> None:
    python = PythonEnvironment(sys.executable, tuple(sorted({sys.prefix, sys.base_prefix})))
    launch = bubblewrap_launch("bwrap", python, LIMITS, readable=["/opt"], as_root=as_root)
    try:
        command = list(launch.command)
        assert launch.environment == {}
        for name in ("net", "pid", "ipc", "uts", "cgroup"):
            assert f"--unshare-{name}" in command
        assert ("--disable-userns" in command) is not as_root
        assert ("--cap-drop" in command) is as_root
        written = [at for at, part in enumerate(command) if part in ("--bind", "--dev-bind")]
        assert written == []
        shown = {command[at + 1] for at, part in enumerate(command) if part == "--ro-bind"}
        assert "/opt" in shown
        assert not shown & {"/", "/etc", "/home", "/root", "/var", str(Path.home())}
        assert set(launch.open_files) == {
            int(command[at + 1])
            for at, part in enumerate(command)
            if part in ("--seccomp", "--ro-bind-data")
        }
    finally:
        launch.close()


def test_the_root_is_never_shown() -> None:
    python = PythonEnvironment(sys.executable, (sys.prefix,))
    for folder in ("/", "/nowhere"):
        with pytest.raises(SandboxError, match="is not a folder that a notebook may see"):
            bubblewrap_launch("bwrap", python, LIMITS, readable=[folder])


ALLOWED, KILLED = 0x7FFF0000, 0x80000000
REFUSED = 0x50000 | errno.EPERM
NO_FAMILY = 0x50000 | errno.EAFNOSUPPORT
X86_64, AARCH64, I386 = 0xC000003E, 0xC00000B7, 0x40000003

CALLS = [
    # machine, architecture of the call, its number, its arguments, what becomes of it
    ("x86_64", X86_64, 0, (), ALLOWED),  # read
    ("x86_64", X86_64, 59, (), ALLOWED),  # execve
    ("x86_64", I386, 0, (), KILLED),
    ("x86_64", AARCH64, 0, (), KILLED),
    ("x86_64", X86_64, 0x40000000, (), REFUSED),
    ("x86_64", X86_64, 101, (), REFUSED),  # ptrace
    ("x86_64", X86_64, 427, (), REFUSED),  # io_uring_register
    ("x86_64", X86_64, 319, (), REFUSED),  # memfd_create
    ("x86_64", X86_64, 435, (), 0x50000 | errno.ENOSYS),  # clone3
    ("x86_64", X86_64, 222, (), 0x50000 | errno.ENOSYS),  # timer_create
    ("x86_64", X86_64, 72, (0, 10, 18), REFUSED),  # fcntl, F_SETSIG
    ("x86_64", X86_64, 72, (0, 2, 1), ALLOWED),  # fcntl, F_SETFD
    ("x86_64", X86_64, 56, (0x01200011,), ALLOWED),  # clone, as fork calls it
    ("x86_64", X86_64, 56, (0x3D0F00,), ALLOWED),  # as threads are made
    ("x86_64", X86_64, 56, (0x10000011,), REFUSED),
    ("x86_64", X86_64, 56, (0x00020011,), REFUSED),
    ("x86_64", X86_64, 56, (0x01200012,), REFUSED),  # its end would send SIGCONT
    ("x86_64", X86_64, 56, (0x01200009,), REFUSED),
    ("x86_64", X86_64, 157, (1, 18), REFUSED),  # prctl, PR_SET_PDEATHSIG
    ("x86_64", X86_64, 157, (15, 0), ALLOWED),  # prctl, PR_SET_NAME
    ("x86_64", X86_64, 109, (0, 0), REFUSED),  # setpgid
    ("x86_64", X86_64, 112, (), ALLOWED),  # setsid
    *(("x86_64", X86_64, 41, (family, 1, 0), ALLOWED) for family in (1, 2, 10)),
    *(("x86_64", X86_64, 53, (family, 1, 0), ALLOWED) for family in (1, 2, 10)),
    *(("x86_64", X86_64, 41, (family, 1, 0), NO_FAMILY) for family in (0, 3, 17, 38, 40, 44)),
    ("x86_64", X86_64, 53, (40, 1, 0), NO_FAMILY),
    ("x86_64", X86_64, 41, (16, 3, 0), ALLOWED),  # netlink, of routes
    ("x86_64", X86_64, 41, (16, 3, 9), NO_FAMILY),  # netlink, of the audit
    ("x86_64", X86_64, 42, (40, 1, 0), ALLOWED),  # connect
    ("aarch64", AARCH64, 63, (), ALLOWED),  # read
    ("aarch64", X86_64, 63, (), KILLED),
    ("aarch64", AARCH64, 117, (), REFUSED),
    ("aarch64", AARCH64, 107, (), 0x50000 | errno.ENOSYS),
    ("aarch64", AARCH64, 25, (0, 10, 18), REFUSED),
    ("aarch64", AARCH64, 220, (0x01200011,), ALLOWED),
    ("aarch64", AARCH64, 220, (0x10000011,), REFUSED),
    ("aarch64", AARCH64, 220, (0x01200012,), REFUSED),
    ("aarch64", AARCH64, 167, (1, 18), REFUSED),
    ("aarch64", AARCH64, 154, (0, 0), REFUSED),
    ("aarch64", AARCH64, 198, (2, 1, 0), ALLOWED),
    ("aarch64", AARCH64, 198, (40, 1, 0), NO_FAMILY),
    ("aarch64", AARCH64, 199, (1, 1, 0), ALLOWED),
]


@pytest.mark.parametrize(("machine", "architecture", "number", "arguments", "verdict"), CALLS)
def test_the_filter_of_system_calls(
    machine: str, architecture: int, number: int, arguments: tuple[int, ...], verdict: int
) -> None:
    assert _filtered(system_call_filter(machine), architecture, number, arguments) == verdict


def _filtered(program: bytes, architecture: int, number: int, arguments: tuple[int, ...]) -> int:
    """Run a program of classic BPF, slowly, on the data of a system call."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("=HBBI", program))
    at, register = 0, 0
    tests = {0x15: operator.eq, 0x35: operator.ge, 0x45: operator.and_}
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (register,) = struct.unpack_from("=I", data, value)
        elif code == 0x54:
            register &= value
        else:
            at += if_true if tests[code](register, value) else if_false


def test_the_filter_is_not_made_for_other_machines() -> None:
    with pytest.raises(SandboxError, match="set a command that runs containers"):
        system_call_filter("riscv64")


def test_a_control_group_limits_all_processes_together(tmp_path: Path) -> None:
    """The files are those of a stand-in: the real ones need a delegated group."""
    limits = Limits(memory=100, disk=10, temporary=1, processes=5)
    group = ControlGroup.make([os.getpid()], limits, tmp_path)
    assert group is not None
    assert group.folder.parent == tmp_path
    assert (group.folder / "memory.max").read_text() == "112"
    assert (group.folder / "pids.max").read_text() == "13"
    assert (group.folder / "cgroup.procs").read_text() == str(os.getpid())
    assert ControlGroup.make([], limits, tmp_path / "nowhere") is None
    for frozen in (True, False):
        group.freeze(frozen)
        assert (group.folder / "cgroup.freeze").read_text() == str(int(frozen))
    ControlGroup(tmp_path / "nowhere").freeze(True)  # of a sandbox that has ended


def test_a_group_is_frozen_but_while_requests_wait(tmp_path: Path) -> None:
    async def go() -> None:
        program = "got = ask()[0]\nanswer(json.dumps({'id': got['id']}).encode())\nask()"
        sandbox = await Sandbox.start(false_agent(GREET + program), LIMITS)
        group = sandbox._group = ControlGroup.make([], LIMITS, tmp_path)
        assert group is not None
        state = group.folder / "cgroup.freeze"
        asking = asyncio.create_task(sandbox.request("list"))
        await asyncio.sleep(0)
        assert state.read_text() == "0"
        await asking
        assert state.read_text() == "1"
        sandbox._group = None  # the files of a real group go with it
        await sandbox.close()

    asyncio.run(go())


@needs_bubblewrap
def test_a_sandbox_whose_files_cannot_be_counted_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError("no CAP_SYS_PTRACE")

    monkeypatch.setattr(sandbox_module, "count_files", refuse)
    with pytest.raises(SandboxError, match="number of files in a sandbox cannot be limited here"):
        asyncio.run(SandboxMaker(LIMITS).make())


def test_only_a_group_that_was_given_away_is_used(tmp_path: Path) -> None:
    unit = tmp_path / "system.slice" / "harmony.service"
    (unit / "server").mkdir(parents=True)
    own = "/system.slice/harmony.service/server"
    assert delegated_group(tmp_path, own) is None
    try:
        os.setxattr(unit, "user.delegate", b"1")
    except OSError:
        pytest.skip("the file system of temporary files has no attributes")
    assert delegated_group(tmp_path, own) == unit
    assert (unit / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert delegated_group(tmp_path, "/system.slice/harmony.service") is None
    assert delegated_group(tmp_path, "/") is None


frames = st.tuples(
    st.dictionaries(st.text(), st.integers() | st.text() | st.none()), st.binary(max_size=100)
)


@given(st.lists(frames))
def test_frames_come_out_as_they_went_in(sent: list[tuple[dict[str, object], bytes]]) -> None:
    async def read() -> list[tuple[dict[str, object], bytes]]:
        stream = asyncio.StreamReader()
        for request, data in sent:
            stream.feed_data(pack_frame(request, data))
        stream.feed_eof()
        found = [await read_frame(stream) for _ in sent]
        with pytest.raises(EOFError):
            await read_frame(stream)
        return found

    assert asyncio.run(read()) == sent


@given(st.binary(max_size=40))
def test_any_bytes_are_a_frame_or_an_error(data: bytes) -> None:
    async def read() -> None:
        stream = asyncio.StreamReader()
        stream.feed_data(data)
        stream.feed_eof()
        try:
            answer, _ = await read_frame(stream)
        except (FrameError, EOFError):
            return
        assert isinstance(answer, dict)

    asyncio.run(read())


@given(st.lists(st.text(max_size=30)), st.integers(2, 60))
def test_output_keeps_both_ends(texts: list[str], characters: int) -> None:
    output = Output(characters, 0)
    for text in texts:
        output.add_message("stream", {"name": "stdout", "text": text})
    whole = "".join(texts)
    answer, _ = output.response()
    half = characters // 2
    assert answer["first"] == whole[:half]
    assert answer["last"] == whole[half:][-half:]
    assert len(answer["first"]) + answer["cut"] + len(answer["last"]) == len(whole)


def test_images_are_limited() -> None:
    output = Output(100, 5)
    for _ in range(3):
        output.add_message("display_data", {"data": {"image/png": "YWJj"}})  # abc
    answer, data = output.response()
    assert answer["images"] == [{"type": "image/png", "size": 3}]
    assert answer["images_left_out"] == 2
    assert data == b"abc"


@pytest.mark.parametrize(
    "content",
    [
        {"data": {}},
        {"data": {"image/png": "%"}},
        {"data": {"text/plain": 1}},
        {},
        {"data": {"x": 1}},
    ],
)
def test_odd_displays_do_no_harm(content: dict[str, object]) -> None:
    output = Output(100, 100)
    for kind in ("display_data", "execute_result", "update_display_data", "error", "odd"):
        output.add_message(kind, content)
    answer, _ = output.response()
    json.dumps(answer)


def test_a_folder_tells_each_change_once(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    assert folder.changes() == {"files": [], "files_left_out": 0, "files_gone": []}
    for number in range(201):
        (tmp_path / f"{number:03}").write_text("x")
    first = folder.changes()
    assert (len(first["files"]), first["files_left_out"]) == (200, 1)
    assert folder.changes()["files"] == [{"path": "200", "size": 1}]
    (tmp_path / "000").unlink()
    assert folder.changes() == {"files": [], "files_left_out": 0, "files_gone": ["000"]}
    folder.write("sub/new", 0, b"12")
    folder.write("sub/new", 2, b"3")
    assert folder.changes()["files"] == []
    assert folder.read("sub/new", 1, 10) == (b"23", 3)
