"""Code that tries to break out of a notebook's sandbox, in the real one."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import gpt_oss_harmony
from gpt_oss_harmony.tools.python.sandbox import Sandbox
from gpt_oss_harmony.tools.python.sandbox.bubblewrap import bubblewrap_launch, find_bubblewrap
from gpt_oss_harmony.tools.python.sandbox.launch import find_python
from gpt_oss_harmony.tools.python.sandbox.limits import process_tree
from support.notebooks import SETTINGS, Conversation, conversation, needs_bubblewrap

pytestmark = needs_bubblewrap

SECRET = "a secret of the server 8f3b1c"

# What the cells below use: `tried(f)` says what became of a call.
PREPARE = """
import ctypes, errno, glob, os, signal, socket, subprocess, sys, time, warnings
warnings.simplefilter("ignore")  # of forks
libc = ctypes.CDLL(None, use_errno=True)
def tried(f, *args):
    try:
        return f"done: {f(*args)!r:.100}"
    except (OSError, MemoryError, ValueError) as error:
        return errno.errorcode.get(getattr(error, "errno", None), type(error).__name__)
def called(number, *args):
    ctypes.set_errno(0)
    done = libc.syscall(number, *args)
    return "done" if done >= 0 else errno.errorcode[ctypes.get_errno()]
"""


@pytest.fixture(scope="module")
def prisoner() -> Iterator[Conversation]:
    os.environ["NOTEBOOK_TEST_SECRET"] = SECRET
    try:
        with conversation() as begun:
            assert begun.text(PREPARE) == "[no output]"
            yield begun
    finally:
        del os.environ["NOTEBOOK_TEST_SECRET"]


def test_reads_no_environment_of_the_server(prisoner: Conversation) -> None:
    read = "[open(f, 'rb').read() for f in glob.glob('/proc/*/environ') if os.access(f, os.R_OK)]"
    text = prisoner.text(f"print({read}, dict(os.environ), subprocess.getoutput('env'))")
    assert "MPLCONFIGDIR" in text
    assert SECRET not in text
    assert "NOTEBOOK_TEST_SECRET" not in text


def test_reads_no_files_of_the_server(prisoner: Conversation, tmp_path: Path) -> None:
    secret = tmp_path / "responses.db"
    secret.write_text(SECRET)
    files = [
        str(secret),
        __file__,
        str(Path(gpt_oss_harmony.__file__)),
        *("/etc/shadow", "/etc/hostname", "/etc/machine-id", "/etc/resolv.conf"),
        *("/proc/kcore", "/proc/kmsg", "/dev/mem", "/dev/sda", "/dev/vda", "/dev/vsock"),
    ]
    prisoner.run(f"files = {files!r}; roots = ['', *glob.glob('/proc/[0-9]*/root')]")
    text = prisoner.text("print({tried(open, r + f, 'rb') for r in roots for f in files})")
    assert set(eval(text)) <= {"ENOENT", "EACCES", "EPERM"}
    prisoner.run(f"home, own = {str(Path.home())!r}, (sys.prefix, sys.base_prefix)")
    seen = prisoner.text(
        "print([t for t, _, files in os.walk(home) if files and not t.startswith(own)])"
    )
    assert seen == "[]"
    passwd = prisoner.text("print(open('/etc/passwd').read())")
    assert passwd.startswith("notebook:x:")
    assert len(passwd.splitlines()) == 1


def test_sees_and_signals_no_process_of_the_server(prisoner: Conversation) -> None:
    for process in {os.getpid(), os.getppid()} - {1}:
        assert prisoner.text(f"tried(os.kill, {process}, 0)") == "'ESRCH'"
        assert prisoner.text(f"tried(os.kill, {process}, 9)") == "'ESRCH'"
    assert prisoner.text("tried(os.kill, 1, 9)") in ("'EPERM'", "'done: None'")  # and it lives
    commands = prisoner.text("print([open(f).read() for f in glob.glob('/proc/[0-9]*/cmdline')])")
    assert "pytest" not in commands
    assert prisoner.text("len(glob.glob('/proc/[0-9]*')) < 10") == "True"


def test_has_no_rights(prisoner: Conversation) -> None:
    status = prisoner.text("print(open('/proc/self/status').read())")
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(fields[name], 16) == 0
    assert fields["NoNewPrivs"].strip() == "1"
    assert fields["Seccomp"].strip() == "2"
    assert fields["Groups"].split() in ([], fields["Gid"].split()[:1])
    assert prisoner.text("tried(os.setuid, 0), tried(os.setgid, 0)") == "('EPERM', 'EPERM')"
    assert prisoner.text("os.getuid()") != str(os.getuid())
    limits = prisoner.text("tried(lambda: __import__('resource').setrlimit(9, (-1, -1)))")
    assert limits == "'ValueError'"  # RLIMIT_AS cannot be raised


WRITES = ["/", "/usr", "/usr/bin", "/etc", "/dev", "/proc", "/proc/sys/kernel", "/sys", "/root"]


def test_writes_nowhere_else(prisoner: Conversation) -> None:
    folders = [
        *WRITES,
        sys.prefix,
        sys.base_prefix,
        str(Path(__file__).parent),
        "/var/tmp",
        "/run",
    ]
    prisoner.run(f"folders = {folders!r}")
    text = prisoner.text("print({tried(open, f + '/x', 'w') for f in folders})")
    assert set(eval(text)) <= {"EROFS", "EACCES", "ENOENT", "EPERM"}
    existing = ["/etc/passwd", sys.executable, "/proc/sys/kernel/hostname", "/proc/sysrq-trigger"]
    text = prisoner.text(f"print({{tried(open, f, 'r+') for f in {existing!r}}})")
    assert set(eval(text)) <= {"EROFS", "EACCES", "ENOENT", "EPERM"}
    places = "print({f for f in ('/mnt/data', '/tmp', '/dev/shm') if os.access(f, os.W_OK)})"
    assert set(eval(prisoner.text(places))) == {"/mnt/data", "/tmp", "/dev/shm"}


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[dict[str, object]]:
    """Servers of the host: on TCP, on a Unix socket, and on an abstract one."""
    abstract = f"\0notebook-test-{os.getpid()}"
    path = str(tmp_path / "host.sock")
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as tcp,
        closing(socket.socket(socket.AF_UNIX)) as unix,
        closing(socket.socket(socket.AF_UNIX)) as hidden,
    ):
        for server, address in ((unix, path), (hidden, abstract)):
            server.bind(address)
            server.listen()
        yield {"port": tcp.getsockname()[1], "path": path, "abstract": abstract}
        assert not select.select([tcp, unix, hidden], [], [], 0)[0]


def test_reaches_no_network_and_no_socket_of_the_host(
    prisoner: Conversation, listeners: dict[str, object]
) -> None:
    prisoner.run(f"host = {listeners!r}")
    text = prisoner.text(
        """
def connect(family, kind, address):
    with socket.socket(family, kind) as s:
        s.settimeout(1)
        return s.connect(address)
def send(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        return s.sendto(b"x", address)
INET, UNIX, TCP = socket.AF_INET, socket.AF_UNIX, socket.SOCK_STREAM
print({
    "loopback": tried(connect, INET, TCP, ("127.0.0.1", host["port"])),
    "tcp": tried(connect, INET, TCP, ("1.1.1.1", 53)),
    "tcp 6": tried(connect, socket.AF_INET6, TCP, ("2606:4700:4700::1111", 53)),
    "metadata": tried(connect, INET, TCP, ("169.254.169.254", 80)),
    "udp": tried(send, ("1.1.1.1", 53)),
    "name": tried(socket.getaddrinfo, "example.com", 443).startswith("done"),
    "unix": tried(connect, UNIX, TCP, host["path"]),
    "abstract": tried(connect, UNIX, TCP, host["abstract"]),
    "docker": tried(connect, UNIX, TCP, "/var/run/docker.sock"),
    "vsock": tried(socket.socket, 40, 1, 0),
    "packet": tried(socket.socket, 17, 3, 0),
    "raw": tried(socket.socket, INET, 3, 1),
    "netlink": tried(socket.socket, 16, 3, 9),
    "interfaces": [name for _, name in socket.if_nameindex()],
})
"""
    )
    assert eval(text) == {
        "loopback": "ECONNREFUSED",
        "tcp": "ENETUNREACH",
        "tcp 6": "ENETUNREACH",
        "metadata": "ENETUNREACH",
        "udp": "ENETUNREACH",
        "name": False,
        "unix": "ENOENT",
        "abstract": "ECONNREFUSED",
        "docker": "ENOENT",
        "vsock": "EAFNOSUPPORT",
        "packet": "EAFNOSUPPORT",
        "raw": "EPERM",
        "netlink": "EAFNOSUPPORT",
        "interfaces": ["lo"],
    }


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86-64")
def test_makes_no_system_calls_that_notebooks_do_not_need(prisoner: Conversation) -> None:
    calls = {
        "ptrace": (101, 16, 1),
        "unshare": (272, 0x10000000),
        "mount": (165, 0, 0, 0, 0, 0),
        "setns": (308, 0, 0),
        "keyctl": (250, 0, 0),
        "bpf": (321, 0, 0, 0),
        "perf_event_open": (298, 0, 0, -1, -1, 0),
        "userfaultfd": (323, 0),
        "io_uring_setup": (425, 1, 0),
        "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
        "memfd_create": (319, b"x", 0),
        "shmget": (29, 0, 1 << 20, 0o1600),
        "semget": (64, 0, 1, 0o1600),
        "msgget": (68, 0, 0o1600),
        "mq_open": (240, b"x", 0o102, 0o600, 0),
        "memfd_secret": (447, 0),
        "clone with a new user namespace": (56, 0x10000011, 0, 0, 0, 0),
        "of the x32 interface": (0x40000000 + 39,),
        "fcntl with F_SETSIG": (72, 0, 10, 18),
        "fcntl with F_SETPIPE_SZ": (72, 0, 1031, 1 << 20),
        "setsockopt with SO_SNDBUF": (54, 0, 1, 7, 0, 0),
        "setsockopt with SO_RCVBUF": (54, 0, 1, 8, 0, 0),
        "setsockopt with SO_SNDBUFFORCE": (54, 0, 1, 32, 0, 0),
        "setsockopt with SO_RCVBUFFORCE": (54, 0, 1, 33, 0, 0),
    }
    text = prisoner.text(f"print({{n: called(*c) for n, c in {calls!r}.items()}})")
    assert eval(text) == dict.fromkeys(calls, "EPERM")
    assert prisoner.text("called(435, 0, 0), called(222, 0, 0, 0)") == "('ENOSYS', 'ENOSYS')"


def test_exports_no_files_by_links(prisoner: Conversation) -> None:
    output = prisoner.run(
        """
os.symlink('/etc/passwd', 'passwd.txt')
os.symlink('/', 'root')
os.symlink('/etc', 'etc')
os.mkfifo('fifo')
with socket.socket(socket.AF_UNIX) as s: s.bind('socket')
os.mkdir('folder'); os.symlink('/etc/passwd', 'folder/link')
for path in ('/etc/passwd', '/usr/bin/env', sys.executable):
    print(tried(os.link, path, 'hard link'))
open('plain.txt', 'w').write('mine')
open('line\\nbreak', 'w').close()
open('back\\\\slash', 'w').close()
open(b'\\xff', 'w').close()
"""
    )
    assert [(each.name, each.data) for each in output.attachments] == [("plain.txt", b"mine")]
    assert output.text.splitlines()[:3] == ["EXDEV"] * 3
    assert output.text.count("a file with an odd name") == 2
    assert "\N{REPLACEMENT CHARACTER} (0 bytes)" in output.text
    assert set(prisoner.session.files) == {"plain.txt"}
    prisoner.session.add_file("etc/passwd", b"through a link")
    prisoner.session.add_file("passwd.txt", b"through a link")
    text = prisoner.text("print(open('/etc/passwd').read())")
    assert "[etc/passwd could not be written to /mnt/data" in text
    assert "[passwd.txt could not be written to /mnt/data" in text
    assert "through a link" not in text
    prisoner.run("os.chdir('/'); subprocess.run('rm -rf /mnt/data/*', shell=True)")
    prisoner.run("os.chdir('/mnt/data')")


def test_fills_no_disk(prisoner: Conversation) -> None:
    text = prisoner.text(
        """
def fill(folder):
    written = 0
    try:
        for n in range(1000):
            with open(f'{folder}/fill-{n}', 'wb', buffering=0) as file:
                for _ in range(64):
                    written += file.write(bytes(1 << 16))
    except OSError as error:
        return written >> 20, errno.errorcode[error.errno]
    finally:
        for file in glob.glob(f'{folder}/fill-*'):
            os.remove(file)
print([fill(folder) for folder in ('/mnt/data', '/tmp', '/dev/shm')])
"""
    )
    data, tmp, shm = eval(text)
    assert data == (8, "ENOSPC") or data == (7, "ENOSPC")
    assert tmp[0] <= 4
    assert shm[0] <= 4
    assert tmp[1] == shm[1] == "ENOSPC"
    assert prisoner.text("tried(os.truncate, open('big', 'w').name, 1 << 40)") == "'EFBIG'"


def test_forks_no_bomb(prisoner: Conversation) -> None:
    text = prisoner.text(
        """
children = []
try:
    while True:
        child = os.fork()
        if not child:
            signal.pause()
        children.append(child)
except OSError as error:
    print(len(children), errno.errorcode[error.errno])
finally:
    for child in children: os.kill(child, 9)
    for child in children: os.waitpid(child, 0)
"""
    )
    count, _, why = text.partition(" ")
    assert int(count) < 64
    assert why == "EAGAIN"
    assert prisoner.text("1") == "1"


def test_takes_no_memory_alone(prisoner: Conversation) -> None:
    assert prisoner.text("tried(bytearray, 2 << 30)") == "'MemoryError'"
    assert prisoner.text("x = 1; x") == "1"


def test_takes_no_memory_together() -> None:
    with conversation() as begun:
        begun.run("open('kept.txt', 'w').write('kept')")
        text = begun.text(
            "import os, signal\n"
            "for _ in range(4):\n"
            "    if not os.fork():\n"
            "        kept = bytearray(b'x') * (500 << 20)\n"
            "        signal.pause()\n"
            "signal.pause()"
        )
        assert "its processes took more than 1024 MiB of memory" in text
        assert begun.text("open('kept.txt').read()").endswith("'kept'")


LEAVE_BEHIND = """
import os, time
ready, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        import signal
        for number in range(1, 32):
            if number not in (9, 19):
                signal.signal(number, signal.SIG_IGN)
        while True:
            with open('/mnt/data/alive', 'a') as file:
                file.write('x')
            os.write(tell, b'x')
            time.sleep(0.001)
    os._exit(0)
_ = os.read(ready, 1)
"""


@pytest.mark.slow
def test_leaves_nothing_running() -> None:
    before = process_tree(os.getpid())
    with conversation(grace_seconds=0.1) as begun:
        begun.run(LEAVE_BEHIND)
        size = "import os; os.path.getsize('/mnt/data/alive')"
        assert int(begun.text(size)) > 0
        # What ignores interrupts makes the kernel start anew, and everything else end.
        ignored = "import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass"
        assert "The code was ended" in begun.text(ignored, seconds=2)
        left = begun.text("import glob, os; print(len(glob.glob('/proc/[0-9]*')))")
        assert int(left) == (
            3 if os.geteuid() == 0 else 2
        )  # the agent, the kernel, of root another
        begun.run(LEAVE_BEHIND)
        processes = [each for each in process_tree(os.getpid()) if each not in before]
        ends = [os.pidfd_open(process) for process in processes]
    for end in ends:
        assert select.select([end], [], [], 10)[0]
        os.close(end)


def test_stops_the_agent_in_vain() -> None:
    with conversation() as begun:
        begun.run("import os\nfor signal in (19, 9): os.kill(os.getppid(), signal)")
        assert begun.text("4").split("\n")[-1] == "4"  # perhaps in a new notebook


IN_A_USER_NAMESPACE = """
import glob, os, subprocess
def read(path):
    try:
        return open(path, 'rb').read()
    except OSError:
        return b''
print({
    'environments': b''.join(map(read, glob.glob('/proc/*/environ'))).count(b'SECRET'),
    'users': open('/proc/self/uid_map').read().split()[2],
    'unshare': subprocess.run(['unshare', '-U', 'true'], stderr=-3).returncode != 0,
    'capabilities': {
        line.split()[1]
        for line in open('/proc/self/status')
        if line.startswith(('CapPrm', 'CapEff', 'CapAmb'))
    },
})
"""


def test_as_an_unprivileged_server_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """There, bubblewrap's processes are of the same user as the code."""
    monkeypatch.setenv("NOTEBOOK_TEST_SECRET", SECRET)
    program = find_bubblewrap()
    assert program is not None
    limits = SETTINGS.limits

    async def go() -> str:
        launch = bubblewrap_launch(program, find_python(), limits, as_root=False)
        sandbox = await Sandbox.start(launch, limits)
        try:
            run = {"characters": 2000, "image_bytes": 0}
            # What comes out of the pipe to the server is tried in test_sandbox, with false agents;
            # test_sandbox_walls tries to take it over.
            answer = await sandbox.run(code=IN_A_USER_NAMESPACE, **run)
            return str(answer["first"])
        finally:
            await sandbox.close()

    text = asyncio.run(go())
    assert eval(text) == {
        "environments": 0,
        "users": "1",
        "unshare": True,
        "capabilities": {"0000000000000000"},
    }
