"""Which system calls the code in a sandbox may not make, as a filter for the Linux kernel.

Namespaces keep apart most of what a process can reach. This takes away what they leave: families
of sockets that belong to no network namespace (a virtual machine's host is reached by AF_VSOCK),
new namespaces, memory that belongs to no process and no folder, and parts of the kernel that
notebooks have no use for and attackers have.
"""

from __future__ import annotations

import errno
import platform
import struct

from .errors import SandboxError

__all__ = ["system_call_filter"]

# Numbers as in asm/unistd_64.h and asm-generic/unistd.h of Linux; from 424 on they are the same.
_NEW_CALLS = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
}
_X86_64 = {
    "shmget": 29,
    "semget": 64,
    "msgget": 68,
    "ptrace": 101,
    "syslog": 103,
    "personality": 135,
    "vhangup": 153,
    "modify_ldt": 154,
    "pivot_root": 155,
    "_sysctl": 156,
    "adjtimex": 159,
    "chroot": 161,
    "acct": 163,
    "settimeofday": 164,
    "mount": 165,
    "umount2": 166,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "sethostname": 170,
    "setdomainname": 171,
    "iopl": 172,
    "ioperm": 173,
    "create_module": 174,
    "init_module": 175,
    "delete_module": 176,
    "quotactl": 179,
    "nfsservctl": 180,
    "lookup_dcookie": 212,
    "clock_settime": 227,
    "mq_open": 240,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "unshare": 272,
    "perf_event_open": 298,
    "fanotify_init": 300,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "clock_adjtime": 305,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "finit_module": 313,
    "memfd_create": 319,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
    **_NEW_CALLS,
}
_AARCH64 = {
    "lookup_dcookie": 18,
    "umount2": 39,
    "mount": 40,
    "pivot_root": 41,
    "nfsservctl": 42,
    "chroot": 51,
    "vhangup": 58,
    "quotactl": 60,
    "acct": 89,
    "personality": 92,
    "unshare": 97,
    "kexec_load": 104,
    "init_module": 105,
    "delete_module": 106,
    "clock_settime": 112,
    "syslog": 116,
    "ptrace": 117,
    "reboot": 142,
    "sethostname": 161,
    "setdomainname": 162,
    "settimeofday": 170,
    "adjtimex": 171,
    "mq_open": 180,
    "msgget": 186,
    "semget": 190,
    "shmget": 194,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "swapon": 224,
    "swapoff": 225,
    "perf_event_open": 241,
    "fanotify_init": 262,
    "name_to_handle_at": 264,
    "open_by_handle_at": 265,
    "clock_adjtime": 266,
    "setns": 268,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "kcmp": 272,
    "finit_module": 273,
    "memfd_create": 279,
    "bpf": 280,
    "userfaultfd": 282,
    "kexec_file_load": 294,
    **_NEW_CALLS,
}
_CLONE3 = 435
# Of each architecture: its AUDIT_ARCH, socket, socketpair, clone, and what is refused.
_ARCHITECTURES = {
    "x86_64": (0xC000003E, 41, 53, 56, _X86_64),
    "aarch64": (0xC00000B7, 198, 199, 220, _AARCH64),
}

_FAMILIES = (1, 2, 10)  # AF_UNIX, AF_INET and AF_INET6, which the namespaces keep apart
_NETLINK, _NETLINK_ROUTE = 16, 0  # and what lists the interfaces, for libraries that look
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_X32_CALLS = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # of classic BPF
_NUMBER, _ARCH, _FIRST_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 32  # offsets in struct seccomp_data
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


def system_call_filter(machine: str | None = None) -> bytes:
    """Return the filter for a machine, this one where none is named: a program of classic BPF.

    Raises `SandboxError` for a machine whose numbers are not known here.

    >>> len(system_call_filter("x86_64")) % 8
    0
    """
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise SandboxError(
            f"bubblewrap is used on {' and '.join(_ARCHITECTURES)} only, and this machine is "
            f"{machine or 'unknown'}: set a command that runs containers instead"
        )
    architecture, socket, socketpair, clone, refused = _ARCHITECTURES[machine]
    program = [
        _step(_LOAD, _ARCH),
        _step(_EQUAL, architecture, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, _X32_CALLS, 0, 1),
        _refuse(errno.EPERM),
    ]
    for number in sorted(refused.values()):
        program += [_step(_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    # The C library goes on with clone, whose flags can be read.
    program += [_step(_EQUAL, _CLONE3, 0, 1), _refuse(errno.ENOSYS)]
    program += [
        _step(_EQUAL, clone, 0, 4),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_ANY_BIT, _NEW_NAMESPACES, 0, 1),
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


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Write one instruction; the jumps count the instructions that they leave out."""
    return struct.pack("=HBBI", code, if_true, if_false, value)
