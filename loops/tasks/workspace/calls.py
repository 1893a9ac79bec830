"""Which calls of the kernel a command may not make, as a filter that the kernel runs (seccomp, classic BPF).

Namespaces do not hold everything: a socket of a virtual machine (AF_VSOCK) reaches its host whatever the network
namespace says, keyrings are of a user and not of a namespace, and some interfaces are there to be attacked more than to
be used. All else is left to the sandbox around: a list of what is allowed would break what people build.
"""

import errno
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Where these stand in what a filter is shown."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000
_X32 = 0x40000000
"""From here on calls of x86_64 are those of another interface, by numbers of their own."""
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: what programs use inside."""

_Step = tuple[int, int, str, str]
"""An instruction, its value, and where to go on where that holds and where it does not."""

_NEWER = (425, 426, 427, 438)
"""io_uring_setup, io_uring_enter, io_uring_register, pidfd_getfd: the same everywhere."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of processor: how the kernel calls it, the number of `socket`, and those of calls that are refused."""

    audit: int
    socket: int
    refused: Sequence[int]


_KINDS: Mapping[str, _Kind] = {
    # add_key, request_key, keyctl, bpf, userfaultfd, perf_event_open, open_by_handle_at, setns, syslog, kexec_load
    "x86_64": _Kind(0xC000003E, 41, (248, 249, 250, 321, 323, 298, 304, 308, 103, 246)),
    "aarch64": _Kind(0xC00000B7, 198, (217, 218, 219, 280, 282, 241, 265, 268, 116, 104)),
}


def call_filter(machine: str) -> bytes | None:
    """The filter for a kind of processor, as `uname -m` has it; None for one whose numbers are not known here."""
    kind = _KINDS.get(machine)
    if kind is None:
        return None
    steps: list[_Step] = [
        (_LOAD, _ARCHITECTURE, "next", "next"),
        (_EQUAL, kind.audit, "next", "refuse"),
        (_LOAD, _NUMBER, "next", "next"),
        *([(_AT_LEAST, _X32, "refuse", "next")] if machine == "x86_64" else []),
        *[(_EQUAL, number, "refuse", "next") for number in (*kind.refused, *_NEWER)],
        (_EQUAL, kind.socket, "next", "allow"),
        (_LOAD, _FIRST_ARGUMENT, "next", "next"),
        *[(_EQUAL, family, "allow", "next") for family in _FAMILIES],
    ]
    return b"".join(_assembled(steps))


def _assembled(steps: Sequence[_Step]) -> Iterator[bytes]:
    """The instructions, then what each name leads to; after the last step a family is known not to be allowed."""
    ends = {"family": _REFUSE | errno.EAFNOSUPPORT, "allow": _ALLOW, "refuse": _REFUSE | errno.EPERM}
    places = {name: len(steps) + place for place, name in enumerate(ends)}
    for place, (code, value, when, otherwise) in enumerate(steps):
        jumps = [places.get(name, place + 1) - place - 1 for name in (when, otherwise)]
        yield struct.pack("=HBBI", code, *jumps, value)
    for answer in ends.values():
        yield struct.pack("=HBBI", _RETURN, 0, 0, answer)
