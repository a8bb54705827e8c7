"""Start programs of this package by a fork of an interpreter that has loaded the package.

Tests start `python -m edgecron` by `subprocess`, thousands of times. A new interpreter takes most
of the time of most commands. So each worker has a server that has loaded the package, and the
server forks. The fork is a process like any other: a child of the worker, with the words,
variables, folder, session and descriptors that the test gives, also in /proc. The supervisors and
other processes that engines of a worker start are such forks, too.

A start for which a fork would be different begins a new interpreter: with options of Python,
another package, variables that Python reads, or if limits, user or signals of the worker have
changed. So does each start in a test with the mark `real_starts`: of memory, of imports, or of the
start itself. Only Linux has the server.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import io
import os
import pickle
import pkgutil
import platform
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import edgecron
from edgecron.base.bundle import own_start

ROOT = Path(__file__).parents[2]
_MOST_BYTES = 64_000
_MOST_FDS = 64

# Python, its C library and Textual read these when they are loaded.
_READ_AT_START = (b"PYTHON", b"LC_", b"LANG", b"LD_", b"MALLOC_", b"GLIBC_", b"TEXTUAL")
_UNBUFFERED = b"PYTHONUNBUFFERED"  # a fork reads it itself
_OPTIONS = {
    *("stdin", "stdout", "stderr", "cwd", "env", "text", "encoding", "errors", "bufsize"),
    *("universal_newlines", "close_fds", "pass_fds", "start_new_session", "restore_signals"),
}
_NAMESPACES = ("cgroup", "mnt", "net", "pid", "user")
_STATUS = (
    *("Umask:", "Uid:", "Gid:", "Groups:", "SigBlk:", "SigIgn:", "CapEff:", "CapBnd:"),
    *("NoNewPrivs:", "Seccomp:", "Cpus_allowed:"),
)

_PROGRAM = [sys.executable, "-m", "edgecron"]
_OWN = own_start("", bundle_word="").argv[:-1]  # and a module of this package


class Request(NamedTuple):
    """A start. `numbers` are those that its descriptors, which come beside it, get."""

    words: list[bytes]
    environment: dict[bytes, bytes]
    folder: bytes
    is_session: bool
    numbers: list[int]


class _Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, which has the server start what is the same as a fork of it."""

    def __new__(cls, args: Any, *more: Any, **options: Any) -> _Popen:
        is_forked = cls is _Popen and not more and _server.can_start(args, options)
        return super().__new__(_Forked if is_forked else cls)


class _Forked(_Popen):
    def _execute_child(
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any,
        cwd: Any, env: Any, startupinfo: Any, creationflags: Any, shell: Any,
        p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int,
        restore_signals: Any, gid: Any, gids: Any, uid: Any, umask: Any,
        start_new_session: bool, process_group: Any,
    ) -> None:  # fmt: skip
        sys.audit("subprocess.Popen", executable, args, cwd, env)
        streams = (p2cread, c2pwrite, errwrite)
        given = {number: number if fd == -1 else fd for number, fd in enumerate(streams)}
        given |= {fd: fd for fd in pass_fds}
        request = Request(
            words=[os.fsencode(word) for word in args],
            environment=_encoded(env),
            folder=os.fsencode(os.getcwd() if cwd is None else os.path.abspath(cwd)),
            is_session=bool(start_new_session),
            numbers=list(given),
        )
        self.pid = _server.start(request, list(given.values()))
        self._child_created = True
        self._close_pipe_fds(  # type: ignore[attr-defined]
            p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite
        )


class _Server:
    """The server of this process, as the tests see it. It begins with the first start."""

    def __init__(self) -> None:
        self._owner = 0  # a process; its forks have no server
        self._environment: dict[bytes, bytes] = {}
        self._surroundings: tuple[str, ...] = ()
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[Any] | None = None
        self._lock = threading.Lock()
        self.is_paused = True
        self.is_unable = False
        self.forks = 0

    def open(self) -> None:
        self._environment = _encoded(None)
        self._surroundings = _surroundings()
        self._owner = os.getpid()

    def close(self) -> None:
        self._owner = 0
        if self._connection is not None and self._process is not None:
            self._connection.close()
            # A fork of this process can hold the connection open: it would not end by that alone.
            self._process.kill()
            self._process.wait()

    @property
    def is_open(self) -> bool:
        """Whether this process has a server, or will have one with its first start."""
        return self._owner == os.getpid() and not self.is_unable

    def can_start(self, args: Any, options: Mapping[str, Any]) -> bool:
        """Whether a fork is the same as this start."""
        if self.is_paused or not self.is_open or isinstance(args, str | bytes):
            return False
        words = list(args)
        is_program = words[:3] == _PROGRAM
        if not is_program and words[: len(_OWN)] != _OWN:
            return False
        unusual = {name for name, value in options.items() if value not in (None, False)}
        if not unusual <= _OPTIONS or not options.get("close_fds", True):
            return False
        env = options.get("env")
        environment = _encoded(env)
        return (
            _is_sendable([*words, *environment.values()])
            and _read_at_start(environment) == _read_at_start(self._environment)
            and _surroundings() == self._surroundings
            and (not is_program or _is_free_of_modules(options.get("cwd")))
            and self.has_begun()
        )

    def start(self, request: Request, fds: Sequence[int]) -> int:
        """Start a program; its process id."""
        assert self._connection is not None
        with self._lock:
            socket.send_fds(self._connection, [pickle.dumps(request)], fds)
            pid = int(self._connection.recv(_MOST_BYTES) or b"0")
            self.forks += 1
        if pid <= 0:
            raise OSError(-pid, "the server that starts programs of tests can't fork")
        return pid

    def has_begun(self) -> bool:
        """Begin once. False if the kernel can't show a fork as what it is."""
        with self._lock:
            if self._connection is None:
                self._connection, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
                with theirs:
                    self._process = _REAL(
                        [sys.executable, "-c", _SERVE, __file__, str(theirs.fileno())],
                        pass_fds=[theirs.fileno()],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        env=self._environment,
                        cwd="/",
                    )
                package = self._connection.recv(_MOST_BYTES).decode()
                assert package in ("", edgecron.__file__), f"another package: {package!r}"
                self.is_unable = not package
        return not self.is_unable


_REAL = subprocess.Popen
_server = _Server()


def begin_forking() -> None:
    """Have `subprocess` start programs of this package by forks, in this process."""
    if sys.platform == "linux" and platform.machine() in _CLONE:
        _server.open()
        subprocess.Popen = _Popen  # type: ignore[misc]


def end_forking() -> None:
    """End the server, if there is one."""
    subprocess.Popen = _REAL  # type: ignore[misc]
    _server.close()


def begin_server() -> None:
    """Begin the server of this process now: the first start would open its connection."""
    if _server.is_open:
        _server.has_begun()


def fork_programs(is_so: bool) -> None:
    """Start programs by forks from now on, or by new interpreters."""
    _server.is_paused = not is_so


def count_forks() -> int:
    """Count the programs that this process has started by forks."""
    return _server.forks


@contextmanager
def real_starts() -> Iterator[None]:
    """Start a new interpreter for each program within."""
    before, _server.is_paused = _server.is_paused, True
    try:
        yield
    finally:
        _server.is_paused = before


def _encoded(environment: Mapping[Any, Any] | None) -> dict[bytes, bytes]:
    if environment is None:
        # What a child inherits. C libraries such as readline add variables that os.environ lacks.
        pointer = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
        pairs = takewhile(lambda pair: pair is not None, (pointer[n] for n in count()))
        return dict((pair or b"").partition(b"=")[::2] for pair in pairs)
    return {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}


def _read_at_start(environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_READ_AT_START) and name != _UNBUFFERED
    }


def _is_sendable(texts: Sequence[Any]) -> bool:
    encoded = [os.fsencode(text) for text in texts]
    return sum(len(text) for text in encoded) < _MOST_BYTES // 2 and b"\0" not in b"".join(encoded)


def _is_free_of_modules(folder: Any) -> bool:
    """Whether a folder, None for ours, has nothing that `python -m` would find there first."""
    try:
        folder = os.getcwd() if folder is None else folder
        if os.path.samefile(folder, ROOT):
            return True
        names = os.listdir(folder)
    except OSError:
        return False
    hidden = {"edgecron", *sys.stdlib_module_names}
    return not any(name.endswith(".py") or os.fsdecode(name) in hidden for name in names)


def _surroundings() -> tuple[str, ...]:
    """What a child inherits, besides folder, variables and descriptors."""
    lines = Path("/proc/thread-self/status").read_text().splitlines()
    return (
        *(line for line in lines if line.startswith(_STATUS)),
        Path("/proc/self/limits").read_text(),
        *(os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES),
        os.readlink("/proc/self/root"),
        Path("/proc/self/cgroup").read_text(),
        str((os.getpriority(os.PRIO_PROCESS, 0), os.getsid(0), os.getpgrp())),
    )


# What follows runs in the server.

# Loads this file alone: its folder must not become a place of modules.
_SERVE = (
    "import sys; from importlib import util;"
    "spec = util.spec_from_file_location('tests_forkserver', sys.argv[1]);"
    "sys.modules[spec.name] = module = util.module_from_spec(spec);"
    "spec.loader.exec_module(module); module.serve(int(sys.argv[2]))"
)
_ROOMS = (
    *("base", "model", "triggers", "planning", "formats", "views", "store", "supervisor"),
    *("engine", "client", "cli"),
)
# Loaded when one is first started: few workers start all of them.
_FRONT_ENDS = {b"tui": "tui", b"--http": "http", b"mcp": "cli.mcp_server"}
_CLONE = {"x86_64": 56, "aarch64": 220}  # the number of the system call
_CLONE_PARENT, _CLONE_CHILD_CLEARTID, _CLONE_CHILD_SETTID = 0x8000, 0x200000, 0x1000000
_PR_SET_MM, _PR_SET_MM_MAP = 35, 14


def serve(fd: int) -> None:
    """Fork for each request until the tests end. In a fork, run the program, and return."""
    connection = socket.socket(fileno=fd)
    atexit.register(_end_quickly)  # before all others, so that it is called after them
    _load(_ROOMS)
    front_ends = dict(_FRONT_ENDS)
    parent_fd = os.pidfd_open(os.getppid())
    can_show = _show([os.fsencode(word) for word in sys.orig_argv], os.environb)
    connection.send(edgecron.__file__.encode() if can_show else b"")
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    poller.register(parent_fd, select.POLLIN)
    while True:
        if any(ready == parent_fd for ready, _ in poller.poll()):
            os._exit(0)
        content, fds, _, _ = socket.recv_fds(connection, _MOST_BYTES, _MOST_FDS)
        if not content:
            os._exit(0)
        request = pickle.loads(content)
        _load([front_ends.pop(word) for word in request.words if word in front_ends])
        pid = _fork_sibling()
        if pid == 0:
            connection.close()
            os.close(parent_fd)
            _take_descriptors(fds, request.numbers)
            _become(request)
            return
        for fd in fds:
            os.close(fd)
        connection.send(str(pid).encode())


def _load(rooms: Sequence[str]) -> None:
    if not rooms:
        return
    for room in rooms:
        with suppress(ImportError):  # An extra is missing, and the program itself says so.
            loaded = importlib.import_module(f"edgecron.{room}")
            inside = getattr(loaded, "__path__", [])
            for found in pkgutil.walk_packages(inside, f"{loaded.__name__}."):
                if not found.name.startswith("edgecron.cli.mcp"):
                    importlib.import_module(found.name)
    gc.collect()
    gc.freeze()


def _fork_sibling() -> int:
    """Fork, and make the fork a child of our parent. Returns as `os.fork` does."""
    libc = ctypes.PyDLL(None, use_errno=True)
    libc.pthread_self.restype = ctypes.c_void_p
    own = libc.pthread_self()
    # The C library keeps the number of a thread, and its fork() has the kernel write the new one.
    words = list((ctypes.c_int * 256).from_address(own))
    tid_address = own + 4 * words.index(threading.get_native_id())
    flags = _CLONE_PARENT | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID | signal.SIGCHLD
    arguments: list[int] = [flags, 0, 0, tid_address, 0]
    if platform.machine() == "aarch64":
        arguments = [flags, 0, 0, 0, tid_address]
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = libc.syscall(
        ctypes.c_long(_CLONE[platform.machine()]), *(ctypes.c_long(one) for one in arguments)
    )
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    return pid if pid > 0 else -ctypes.get_errno()


def _take_descriptors(fds: Sequence[int], numbers: Sequence[int]) -> None:
    above = max((*fds, *numbers)) + 1
    held = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, number in zip(held, numbers, strict=True):
        os.dup2(fd, number)
        os.close(fd)


def _become(request: Request) -> None:
    """Run a program as a new interpreter would, in this process."""
    if request.is_session:
        os.setsid()
    os.chdir(request.folder)
    os.environ.clear()
    os.environb.update(request.environment)
    time.tzset()
    _show(request.words, request.environment)
    sys.stdin = sys.__stdin__ = _stream(0, sys.stdin)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, sys.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, sys.stderr)  # type: ignore[misc]
    words = [os.fsdecode(word) for word in request.words]
    sys.orig_argv = words
    global _exit_code
    try:
        if words[1] == "-m":
            sys.path[0] = os.getcwd()
            sys.argv = words[2:]
            runpy.run_module("edgecron", run_name="__main__", alter_sys=True)
        else:  # -P -c TEXT
            del sys.path[0]
            sys.argv = words[2:3] + words[4:]
            exec(words[3], {"__name__": "__main__"})
        _exit_code = 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            _exit_code = (end.code or 0) & 0xFF
        raise


_exit_code: int | None = None  # None: of an error, with which Python ends as ever


def _end_quickly() -> None:
    """End as Python does after its last `atexit` function, but leave all modules as they are.

    To clear them, a fork would have to copy most of its memory.
    """
    if _exit_code is None:
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except (OSError, ValueError):
        return  # Python reports it.
    os._exit(_exit_code)


def _stream(fd: int, before: Any) -> io.TextIOWrapper:
    """A standard stream as Python makes it."""
    is_input = fd == 0
    is_unbuffered = not is_input and bool(os.environb.get(_UNBUFFERED))
    return io.TextIOWrapper(
        open(fd, "rb" if is_input else "wb", 0 if is_unbuffered else -1, closefd=False),
        encoding=before.encoding,
        errors=before.errors,
        newline=None if is_input else "\n",
        line_buffering=not is_unbuffered and (fd == 2 or os.isatty(fd)),
        write_through=is_unbuffered,
    )


class _Map(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in (
            "start_code", "end_code", "start_data", "end_data", "start_brk", "brk", "start_stack",
            "arg_start", "arg_end", "env_start", "env_end", "auxv",
        )),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_int32),
    ]  # fmt: skip


_shown: Any = None  # the kernel reads it


def _show(words: Sequence[bytes], environment: Mapping[bytes, bytes]) -> bool:
    """Show words and variables as those of this process in /proc. False if the kernel can't."""
    global _shown
    arguments = b"".join(word + b"\0" for word in words)
    variables = b"".join(name + b"=" + value + b"\0" for name, value in environment.items())
    shown = ctypes.create_string_buffer(arguments + variables)
    begin = ctypes.addressof(shown)
    end = begin + len(arguments)
    stat = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    code, end_code, stack, data, end_data, brk = (
        int(stat[n - 3]) for n in (26, 27, 28, 45, 46, 47)
    )
    libc = ctypes.CDLL(None)
    libc.sbrk.restype = ctypes.c_void_p
    places = _Map(
        *(code, end_code, data, end_data, brk, libc.sbrk(0), stack),
        *(begin, end, end, end + len(variables), 0, 0, -1),
    )
    if libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.byref(places), ctypes.sizeof(places), 0) != 0:
        return False
    _shown = shown
    return True
