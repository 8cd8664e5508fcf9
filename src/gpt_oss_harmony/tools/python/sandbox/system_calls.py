"""The system calls that code in a sandbox may not make, as a seccomp filter for Linux.

Namespaces isolate most of what a process can reach. The filter refuses the rest: families of
sockets outside of network namespaces (AF_VSOCK reaches the host of a virtual machine), new
namespaces, memory that belongs to no process and no folder, and parts of the kernel that are
useless to notebooks and useful to attackers.

The program is written here because bubblewrap takes it as bytes: libseccomp would have to be
installed beside bubblewrap, which does not need it itself.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Sequence

from .launch import SandboxError

# The refused calls, with their numbers on x86_64 and aarch64 (asm/unistd_64.h and
# asm-generic/unistd.h of Linux). From 424 on, the numbers of all architectures are the same.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "ptrace": (101, 117),
    # A process whose parent leaves its process group behind gets SIGCONT if it was stopped there.
    "setpgid": (109, 154),
    "syslog": (103, 116),
    "personality": (135, 92),
    "vhangup": (153, 58),
    "modify_ldt": (154, None),
    "pivot_root": (155, 41),
    "_sysctl": (156, None),
    "adjtimex": (159, 171),
    "chroot": (161, 51),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "mount": (165, 40),
    "umount2": (166, 39),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "create_module": (174, None),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "quotactl": (179, 60),
    "nfsservctl": (180, 42),
    "lookup_dcookie": (212, 18),
    "clock_settime": (227, 112),
    "mq_open": (240, 180),
    "kexec_load": (246, 104),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "perf_event_open": (298, 241),
    "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "clock_adjtime": (305, 266),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "finit_module": (313, 273),
    "memfd_create": (319, 279),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "pidfd_getfd": (438, 438),
    "mount_setattr": (442, 442),
    "quotactl_fd": (443, 443),
    "memfd_secret": (447, 447),
}
# The calls that programs try first, and do without where the kernel lacks them. Without clone3,
# the C library uses clone, whose flags the filter can read. A timer could send SIGCONT to a process
# that is stopped between calls of the notebook.
_MISSING: dict[str, tuple[int, int]] = {"clone3": (435, 435), "timer_create": (222, 107)}
# Of each architecture: its AUDIT_ARCH; the numbers of socket, socketpair, clone, fcntl, prctl and
# setsockopt; its column in the tables above.
_ARCHITECTURES = {
    "x86_64": (0xC000003E, 41, 53, 56, 72, 157, 54, 0),
    "aarch64": (0xC00000B7, 198, 199, 220, 25, 167, 208, 1),
}

_FAMILIES = (1, 2, 10)  # AF_UNIX, AF_INET and AF_INET6, which the namespaces isolate
_NETLINK, _NETLINK_ROUTE = 16, 0  # lists the network interfaces, which libraries ask for
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_SET_SIGNAL = 10  # F_SETSIG of fcntl: events of a file would send any signal, such as SIGCONT
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ of fcntl: buffers are memory of no process
_SOCKET_LEVEL = 1  # SOL_SOCKET of setsockopt
_BUFFER_OPTIONS = (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF and their FORCE: such memory, too
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl: the end of the parent would send any signal
_EXIT_SIGNAL, _CHILD_SIGNAL = 0xFF, 17  # of clone's flags: the child's end would send it; SIGCHLD
# Calls of x32 have the architecture of x86_64, but other numbers, all with this bit.
_X32_CALLS = 0x40000000

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06  # of classic BPF
_EQUAL, _AT_LEAST, _ANY_BIT = 0x15, 0x35, 0x45
_NUMBER, _ARCH, _FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 24, 32  # offsets
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


def system_call_filter(machine: str | None = None) -> bytes:
    """Return the filter for a machine, by default this one, as a program of classic BPF.

    Raises `SandboxError` for an architecture without numbers in the table.

    >>> len(system_call_filter("x86_64")) % 8
    0
    """
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise SandboxError(
            f"bubblewrap is used on {' and '.join(_ARCHITECTURES)} only, and this machine is "
            f"{machine or 'unknown'}: set a command that runs containers instead"
        )
    architecture, *calls, column = _ARCHITECTURES[machine]
    socket, socketpair, clone, fcntl, prctl, setsockopt = calls
    program = [
        # The calls of other architectures, such as 32-bit ones, have other numbers.
        _step(_LOAD, _ARCH),
        _step(_EQUAL, architecture, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, _X32_CALLS, 0, 1),
        _refuse(errno.EPERM),
    ]
    numbers = [numbers[column] for numbers in _REFUSED.values()]
    for number in sorted(number for number in numbers if number is not None):
        program += [_step(_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    for both in _MISSING.values():
        program += [_step(_EQUAL, both[column], 0, 1), _refuse(errno.ENOSYS)]
    program += [
        *_refused_with(fcntl, {_SECOND_ARGUMENT: (_SET_SIGNAL, _SET_PIPE_SIZE)}),
        *_refused_with(
            setsockopt, {_SECOND_ARGUMENT: (_SOCKET_LEVEL,), _THIRD_ARGUMENT: _BUFFER_OPTIONS}
        ),
        *_refused_with(prctl, {_FIRST_ARGUMENT: (_PARENT_DEATH_SIGNAL,)}),
        _step(_EQUAL, clone, 0, 7),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_ANY_BIT, _NEW_NAMESPACES, 3, 0),
        _step(_AND, _EXIT_SIGNAL),
        _step(_EQUAL, 0, 2, 0),  # a thread
        _step(_EQUAL, _CHILD_SIGNAL, 1, 0),
        _refuse(errno.EPERM),
        _step(_RETURN, _ALLOW),
        _step(_EQUAL, socket, 1, 0),
        _step(_EQUAL, socketpair, 0, 2 * len(_FAMILIES) + 5),
        _step(_LOAD, _FIRST_ARGUMENT),
    ]
    for family in _FAMILIES:
        program += [_step(_EQUAL, family, 0, 1), _step(_RETURN, _ALLOW)]
    program += [
        _step(_EQUAL, _NETLINK, 0, 2),
        _step(_LOAD, _THIRD_ARGUMENT),
        _step(_EQUAL, _NETLINK_ROUTE, 1, 0),
        _refuse(errno.EAFNOSUPPORT),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(program)


def _refused_with(call: int, arguments: dict[int, Sequence[int]]) -> list[bytes]:
    """Refuse a call where each of these arguments has one of its values; allow it otherwise."""
    steps = [_refuse(errno.EPERM), _step(_RETURN, _ALLOW)]
    for argument, values in reversed(arguments.items()):
        to_allow = len(steps) - 1
        *others, last = values
        tests = [_step(_EQUAL, other, len(others) - at) for at, other in enumerate(others)]
        steps = [_step(_LOAD, argument), *tests, _step(_EQUAL, last, 0, to_allow), *steps]
    return [_step(_EQUAL, call, 0, len(steps)), *steps]


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Encode one instruction; the jumps count the instructions that they skip."""
    return struct.pack("=HBBI", code, if_true, if_false, value)
