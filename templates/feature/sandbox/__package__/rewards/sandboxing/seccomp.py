# vextract:template
"""A filter of system calls: those that no program needs which computes an answer fail with EPERM."""

import ctypes
import errno
import os
import struct

from . import system

# struct seccomp_data: the number, the architecture, and the lower half of each argument.
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
X32 = 0x40000000
# CLONE_NEW*, and in the flags of open() all that is not reading.
NEW_NAMESPACES = 0x7E020080
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# name: (x86_64, aarch64); None: not there.
Table = dict[str, tuple[int | None, int | None]]
# Other processes, kernel objects that outlive a process, the network, what changes the machine, and writing files.
FORBIDDEN: Table = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "socket": (41, 198),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "quotactl": (179, 60),
    "personality": (135, 92),
    "vhangup": (153, 58),
    "syslog": (103, 116),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "setsid": (112, 157),
    "setpgid": (109, 154),
    "creat": (85, None),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "rmdir": (84, None),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "link": (86, None),
    "linkat": (265, 37),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "truncate": (76, 45),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
}
# Calls for which the C library has another way where they are missing.
MISSING: Table = {"clone3": (435, 435), "openat2": (437, 437)}
CLONE, PRLIMIT, KILL_CALL, TGKILL, OPEN, OPENAT = (56, 220), (302, 261), (62, 129), (234, 131), (2, None), (257, 56)

Instruction = tuple[int, int, int, int]


def is_known() -> bool:
    """Tell whether this machine's system calls are known here."""
    return system.IS_LINUX and system.MACHINE in AUDIT


def restrict() -> None:
    """Install the filter, for good. Needs `no_new_privileges`.

    Raises:
        OSError: the kernel refuses.
    """
    program = _program(list(AUDIT).index(system.MACHINE))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    address = ctypes.addressof(buffer := ctypes.create_string_buffer(header))
    system.prctl(system.PR_SET_SECCOMP, 2, address)
    del buffer


def _program(column: int) -> list[Instruction]:
    program: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, AUDIT[system.MACHINE]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]
    if system.MACHINE == "x86_64":
        program += [(JUMP_AT_LEAST, 0, 1, X32), (RETURN, 0, 0, FAIL | errno.EPERM)]
    for table, error in ((FORBIDDEN, errno.EPERM), (MISSING, errno.ENOSYS)):
        for numbers in table.values():
            if numbers[column] is not None:
                program += [(JUMP_EQUAL, 0, 1, numbers[column] or 0), (RETURN, 0, 0, FAIL | error)]
    program += _unless(CLONE[column], 0, JUMP_ANY_BIT, NEW_NAMESPACES, fail_if_so=True)
    program += _unless(PRLIMIT[column], 0, JUMP_EQUAL, 0, fail_if_so=False)
    for number in (KILL_CALL[column], TGKILL[column]):
        program += _unless(number, 0, JUMP_EQUAL, os.getpid(), fail_if_so=False)
    program += _unless(OPEN[column], 1, JUMP_ANY_BIT, WRITES, fail_if_so=True)
    program += _unless(OPENAT[column], 2, JUMP_ANY_BIT, WRITES, fail_if_so=True)
    return [*program, (RETURN, 0, 0, ALLOW)]


def _unless(number: int | None, argument: int, test: int, value: int, fail_if_so: bool) -> list[Instruction]:
    """Fail a call for what its argument is, or is not."""
    if number is None:
        return []
    skip = (0, 1) if fail_if_so else (1, 0)
    return [
        (JUMP_EQUAL, 0, 4, number),
        (LOAD, 0, 0, ARGUMENTS + 8 * argument),
        (test, *skip, value),
        (RETURN, 0, 0, FAIL | errno.EPERM),
        (LOAD, 0, 0, NUMBER),
    ]
