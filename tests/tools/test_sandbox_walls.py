"""Code that tries to take the place of the sandbox's agent, or to outlive the server.

The server runs as a real ordinary user, whose sandboxes are less protected than those of root: all
their processes have the same user.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpt_oss_harmony.tools.python.sandbox import Limits, Sandbox, bubblewrap
from gpt_oss_harmony.tools.python.sandbox.limits import OWN_TASKS, breach, process_tree
from support.notebooks import SETTINGS, Conversation, conversation, false_agent, needs_bubblewrap
from support.ordinary_user import OrdinaryServer, needs_ordinary_user

pytestmark = [needs_bubblewrap, needs_ordinary_user]

# What the cells below use: `tried(f)` says what became of a call.
PREPARE = """
import ctypes, errno, fcntl, glob, mmap, os, signal, subprocess, sys, threading, time, warnings
warnings.simplefilter("ignore")  # of forks
libc = ctypes.CDLL(None, use_errno=True)
def tried(f, *args):
    try:
        return f"done: {f(*args)!r:.100}"
    except OSError as error:
        return errno.errorcode[error.errno]
def called(number, *args):
    ctypes.set_errno(0)
    done = libc.syscall(number, *args)
    return f"done: {done}" if done >= 0 else errno.errorcode[ctypes.get_errno()]
"""

# With Landlock, and as on a system without it.
WALLS: dict[str, dict[str, object]] = {
    "all walls": {},
    "without Landlock": {"writable": [], "is_bubblewrap": False},
}


@pytest.fixture(scope="module", params=WALLS.values(), ids=list(WALLS))
def server(request: pytest.FixtureRequest) -> Iterator[OrdinaryServer]:
    begun = OrdinaryServer(**request.param)
    try:
        assert begun.text(PREPARE) == ""
        yield begun
    finally:
        begun.close()


def test_it_is_an_ordinary_users(server: OrdinaryServer) -> None:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert "0" not in fields["Uid"].split()
    assert int(fields["CapEff"], 16) == 0
    assert server.text("os.getppid(), os.getuid()") == "(1, 1000)"


FILES = ["mem", "environ", "maps", "auxv", "fd/0", "fd/1", "root/etc", "cwd/x", "task/1/mem"]


@pytest.mark.parametrize("mode", ["rb", "r+b"])
@pytest.mark.parametrize("file", FILES)
def test_the_memory_and_files_of_the_agent_are_closed(
    server: OrdinaryServer, file: str, mode: str
) -> None:
    assert server.text(f"tried(open, '/proc/1/{file}', {mode!r})") in ("'EACCES'", "'EPERM'")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86-64")
def test_no_system_call_reaches_the_agent(server: OrdinaryServer) -> None:
    calls = {
        "ptrace, attach": (101, 16, 1, 0, 0),
        "ptrace, seize": (101, 0x4206, 1, 0, 0),
        "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
        "process_vm_writev": (311, 1, 0, 0, 0, 0, 0),
        "kcmp": (312, os.getpid(), 1, 0, 0, 0),
        "pidfd_getfd": (438, 0, 1, 0),
    }
    text = server.text(f"print({{name: called(*call) for name, call in {calls!r}.items()}})")
    assert eval(text) == dict.fromkeys(calls, "EPERM")
    descriptors = "[called(438, os.pidfd_open(1), number, 0) for number in range(4)]"
    assert eval(server.text(descriptors)) == ["EPERM"] * 4


def test_no_signal_stops_or_ends_the_agent(server: OrdinaryServer) -> None:
    server.text("for number in range(1, 65): tried(os.kill, 1, number)")
    server.text("for number in range(1, 65): called(234, 1, 1, number)")  # tgkill
    assert server.text("'here'") == "'here'"


def test_the_agent_is_not_debugged_by_its_children(server: OrdinaryServer) -> None:
    """PR_SET_DUMPABLE, PR_SET_PTRACER and PR_SET_CHILD_SUBREAPER help only who calls them."""
    server.text("libc.prctl(4, 1), libc.prctl(0x59616d61, -1), libc.prctl(36, 1)")
    assert server.text("tried(open, '/proc/1/mem', 'r+b')") in ("'EACCES'", "'EPERM'")
    again = f"{PREPARE}\nprint(tried(open, '/proc/1/mem', 'r+b'))"
    code = f"print(subprocess.run([sys.executable, '-c', {again!r}], capture_output=True).stdout)"
    assert server.text(code) in (r"b'EACCES\n'", r"b'EPERM\n'")


# Each leaves a process behind that writes as long as it runs.
RUNNING_ON = {
    "a thread": "threading.Thread(target=write, daemon=True).start()",
    "a child": "if not os.fork(): write()",
    "an orphan in a session of its own": """
if not os.fork():
    os.setsid()
    if not os.fork():
        for number in range(1, 65):
            tried(signal.signal, number, signal.SIG_IGN) if number not in (9, 19, 32, 33) else None
        libc.prctl(1, 0)  # PR_SET_PDEATHSIG
        write()
    os._exit(0)
""",
    "a timer that sends SIGCONT": """
if not os.fork():
    signal.signal(signal.SIGCONT, lambda *_: None)
    event = (ctypes.c_int * 16)(0, 0, signal.SIGCONT, 0)  # SIGEV_SIGNAL
    timer = ctypes.c_void_p()
    libc.timer_create(0, event, ctypes.byref(timer))
    libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 50_000_000, 0, 50_000_000), None)
    write()
""",
    "an event of a file that sends SIGCONT": """
if not os.fork():
    folder = os.open('/mnt/data', os.O_RDONLY)
    tried(fcntl.fcntl, folder, 10, int(signal.SIGCONT))  # F_SETSIG
    tried(fcntl.fcntl, folder, 1026, 0x80000007)  # F_NOTIFY
    write()
""",
    "a child whose end sends SIGCONT": """
if not os.fork():
    child = libc.syscall(56, int(signal.SIGCONT), 0, 0, 0, 0)
    child = os.fork() if child < 0 else child
    end_late() if child == 0 else write()
""",
    "a child whose parent's end sends SIGCONT": """
if not os.fork():
    if not os.fork():
        libc.prctl(1, int(signal.SIGCONT), 0, 0, 0)  # PR_SET_PDEATHSIG
        write()
    end_late()
""",
    "a process group that an ending process leaves behind": """
if not os.fork():
    if not os.fork():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        tried(os.setpgid, 0, 0)
        write()
    end_late()
""",
}
# Of the kernel's own signals, those that the filter cannot refuse: the sandbox ends instead.
HUNG_UP = """
if not os.fork():
    master, slave = os.openpty()
    if not os.fork():
        os.close(master)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.setsid()
        tried(fcntl.ioctl, slave, 0x540E, 0)  # TIOCSCTTY
        write()
    os.close(slave)
    end_late()
"""
WRITE = """
gate, gatekeeper = os.pipe()
def end_late():
    memory = mmap.mmap(-1, 600 << 20)
    memory.madvise(mmap.MADV_NOHUGEPAGE)  # the kernel frees it slowly, then sends its signals
    for page in range(0, len(memory), mmap.PAGESIZE):
        memory[page] = 1
    open('/mnt/data/waits', 'w').close()
    os.read(gate, 1)
    os._exit(0)
def write():
    while True:
        with open('/mnt/data/alive', 'a') as file:
            file.write('x')
        time.sleep(0.001)
"""


# What `end_late` leaves behind ends when the cell does.
END_LATE = """
while not os.path.exists('/mnt/data/waits'): time.sleep(0.001)
os.remove('/mnt/data/waits'); os.write(gatekeeper, b'x')
"""


def leaving(code: str) -> str:
    """Write a cell that leaves something behind."""
    return f"{WRITE}\n{code}\ntime.sleep(0.01)\n{END_LATE if 'end_late' in code else ''}"


STOPPED = ("T", "Z", "")
SANDBOX = 3  # processes of the sandbox itself, which come first: bubblewrap's two and the agent


def state(process: int) -> str:
    """Return the letter for the state of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.mark.parametrize("code", RUNNING_ON.values(), ids=RUNNING_ON)
def test_nothing_runs_between_calls(server: OrdinaryServer, code: str) -> None:
    server.text(leaving(code))
    watched = server.sandboxed()[2:]  # without bubblewrap and the agent
    assert watched
    for _ in range(500):
        if all(state(process) in STOPPED for process in watched):
            break
        time.sleep(0.01)  # a process that waits for a processor stops when it gets one
    for _ in range(20):
        assert all(state(process) in STOPPED for process in watched)
        time.sleep(0.01)  # in which a timer would fire
    assert int(server.text("os.path.getsize('/mnt/data/alive')")) > 0
    server.text(
        "for process in map(int, filter(str.isdigit, os.listdir('/proc'))):\n"
        "    if process not in (1, os.getpid()): tried(os.kill, process, 9)"
    )


CONTINUED = {
    **{name: (code, False) for name, code in RUNNING_ON.items() if re.search("SIGCONT|late", code)},
    "a terminal that is closed": (HUNG_UP, True),
}


def ends_by_itself(begun: Conversation, code: str) -> bool:
    """Run a cell, and return whether its sandbox ends behind it; if not, all of it is stopped.

    What ends late may be early on a busy machine: its signal then comes while the cell still runs.
    """
    before = set(process_tree(os.getpid()))
    begun.text(PREPARE + leaving(code))
    processes = [
        process for process in process_tree(os.getpid()) if process not in before and state(process)
    ]
    assert len(processes) > SANDBOX
    until = time.monotonic() + 60
    while time.monotonic() < until:
        begun.wait(asyncio.sleep(0.05))
        states = [state(process) for process in processes]
        if not any(states):
            return True
        if all(one in STOPPED for one in states[SANDBOX:]) and time.monotonic() > until - 50:
            return False
    raise AssertionError(f"a process runs between two calls: {states}")


@pytest.mark.slow
@pytest.mark.parametrize(("code", "has_filter"), CONTINUED.values(), ids=CONTINUED)
def test_a_sandbox_whose_code_runs_between_calls_is_ended(
    code: str, has_filter: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the filter refuses is tried without it, to see that the agent finds it as well."""
    if not has_filter:
        allow_all = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
        monkeypatch.setattr(bubblewrap, "system_call_filter", lambda: allow_all)
    for _ in range(5):
        with conversation() as begun:
            if ends_by_itself(begun, code):
                text = begun.text("1 + 1")
                assert "has ended, because its code ran on between two calls" in text
                assert text.endswith("2")
                return
    raise AssertionError("the code never ran on between two calls")


GROWING_ON = {
    "memory": (
        "kept = [bytearray(64 << 20) for _ in range(20)]; time.sleep(60)",
        "1024 MiB of memory",
    ),
    "memory of children": (
        "[os.fork() or (bytearray(300 << 20), time.sleep(60)) for _ in range(4)]; time.sleep(60)",
        "1024 MiB of memory",
    ),
}


@pytest.mark.parametrize(("code", "why"), GROWING_ON.values(), ids=GROWING_ON)
def test_memory_is_measured_between_calls(code: str, why: str) -> None:
    program = "import time; ask(); answer(b'{\"id\": 1}'); ask(); answer(b'{\"id\": 2}')\n" + code

    async def go() -> None:
        sandbox = await Sandbox.start(false_agent(program), SETTINGS.limits)
        await sandbox.run(code="")
        while not sandbox.has_ended:
            await asyncio.sleep(0.01)
        assert why in sandbox.why_ended
        await sandbox.close()

    asyncio.run(go())


def test_processes_and_files_are_counted_with_memory() -> None:
    """A shell with a child stands for bubblewrap and process 1 of its sandbox."""
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True) as shell:
        try:
            while len(process_tree(shell.pid)) < 2:
                time.sleep(0.01)
            folders = ["/dev/shm"]
            assert breach(shell.pid, Limits(), folders) is None
            few_tasks = breach(shell.pid, Limits(processes=-OWN_TASKS), folders)
            few_files = breach(shell.pid, Limits(files=-1), folders)
            no_memory = breach(shell.pid, Limits(memory=0))
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
    assert str(few_tasks).endswith("processes and threads")
    assert str(few_files).endswith("files")
    assert str(no_memory).endswith("of memory")


STARTUP_FILES = """
for name in ('IPython.py', 'ipykernel.py', 'json.py', 'sitecustomize.py', 'usercustomize.py'):
    open('/mnt/data/' + name, 'w').write("open('/mnt/data/ran', 'a').write(__name__ + ' ')")
site = f'/tmp/.local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages'
for folder, name in (
    (site, 'usercustomize.py'), (site, 'x.pth'), ('/tmp/ipython/profile_default/startup', '0.py'),
    ('/tmp/ipython/profile_default', 'ipython_kernel_config.py'),
    ('/mnt/data', 'ipython_kernel_config.py'), ('/tmp/.ipython/profile_default/startup', '0.py'),
    ('/tmp/.jupyter', 'jupyter_config.py'),
):
    os.makedirs(folder, exist_ok=True)
    open(f'{folder}/{name}', 'w').write("import os; open('/mnt/data/ran', 'a').write('x')")
os._exit(0)
"""


def test_no_code_is_left_for_the_next_kernel() -> None:
    with conversation() as begun:
        assert "it exited with code 0" in begun.text("import os, sys\n" + STARTUP_FILES)
        assert begun.text("import os; os.path.exists('/mnt/data/ran')").endswith("False")
        assert begun.text("import usercustomize; open('ran').read()") == "'usercustomize '"


END_FRUITLESS = (
    "for name in ('mem', 'task/1/mem'):\n"
    "    tried(open, '/proc/1/' + name, 'r+b')\n"
    "for number in range(1, 65): tried(os.kill, 1, number)\n"
    "libc.prctl(1, 0), libc.prctl(36, 1), libc.prctl(4, 1)\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("code", RUNNING_ON.values(), ids=RUNNING_ON)
@pytest.mark.parametrize("when", ["between calls", "during a call"])
@pytest.mark.parametrize("walls", WALLS.values(), ids=WALLS)
def test_nothing_outlives_a_killed_server(walls: dict[str, object], when: str, code: str) -> None:
    server = OrdinaryServer(**walls)
    try:
        server.text(PREPARE + WRITE)
        server.text(END_FRUITLESS + code)
        if when == "during a call":
            server.send("print('x', flush=True)\nwrite()")
            while all(state(process) in STOPPED for process in server.sandboxed()[2:]):
                time.sleep(0.01)
        ends = [os.pidfd_open(process) for process in server.sandboxed()]
        assert len(ends) >= 3
        server.process.kill()  # SIGKILL
        for end in ends:
            assert select.select([end], [], [], 10)[0], "a process outlives the server"
            os.close(end)
    finally:
        server.close()


def test_nothing_outlives_a_killed_server_of_root() -> None:
    """Bubblewrap is killed alone here: it is the only process that depends on the server."""
    with conversation() as begun:
        before = set(process_tree(os.getpid()))
        begun.text(PREPARE + WRITE + END_FRUITLESS + RUNNING_ON["a child"])
        processes = [process for process in process_tree(os.getpid()) if process not in before]
        ends = [os.pidfd_open(process) for process in processes]
        os.kill(processes[0], signal.SIGKILL)
        for end in ends:
            assert select.select([end], [], [], 10)[0], "a process outlives bubblewrap"
            os.close(end)


LANDLOCKED = """
import errno, os, sys
from gpt_oss_harmony.tools.python.sandbox.notebook_kernel import restrict_writing
def tried(f, *args):
    try:
        f(*args)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
own, other = sys.argv[1:]
restrict_writing([own])
os.makedirs(own + "/a"); os.makedirs(own + "/b"); open(own + "/a/file", "w").close()
print([
    tried(os.rename, own + "/a/file", own + "/b/file"),
    tried(os.truncate, own + "/b/file", 10),
    tried(open, "/dev/null", "w"),
    tried(open, other + "/file", "w"),
    tried(os.mkdir, other + "/folder"),
    tried(os.symlink, "x", other + "/link"),
    tried(os.rename, own + "/b/file", other + "/moved"),
    tried(open, f"/proc/{os.getppid()}/mem", "rb"),
    tried(open, "/proc/self/mem", "rb"),
    tried(os.listdir, other),
])
"""


def test_landlock_closes_files_and_memory_even_to_root(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    if ctypes.CDLL(None).syscall(444, None, 0, 1) < 2:
        pytest.skip("this system has no Landlock")
    program = [sys.executable, "-c", LANDLOCKED, str(own), str(other)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert eval(done.stdout) == [
        *("done", "done", "done"),
        *("EACCES", "EACCES", "EACCES", "EACCES"),
        *("EACCES", "done", "done"),
    ]
