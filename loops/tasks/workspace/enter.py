"""Listens on ports of another network namespace, and hands the sockets over. Executed as a file, by itself.

    python -I -S enter.py '{"pid": ..., "uid": ..., "gid": ..., "ports": [...], "socket": FD}'

So the service itself answers what connects inside a sandbox, and nothing of it has to run in there. It must be a
process of its own with one thread: only such a one may change its user namespace. It becomes the user of the sandbox,
who owns that namespace, first.
"""

import ctypes
import fcntl
import json
import os
import socket
import sys

NS_GET_USERNS = 0xB701
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
IP_FREEBIND = 15
CANNOT = 125


def enter(descriptor: int, kind: int) -> None:
    """Become a member of a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


def listening(port: int) -> socket.socket:
    """A socket that listens on the loopback here. The interface may still be down, so the address is not asked for."""
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    one.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
    one.bind(("127.0.0.1", port))
    one.listen(64)
    return one


def main(given: str) -> None:
    """Enter, listen, and send."""
    asked = json.loads(given)
    if asked["uid"] is not None:
        os.setgroups([])
        os.setresgid(asked["gid"], asked["gid"], asked["gid"])
        os.setresuid(asked["uid"], asked["uid"], asked["uid"])
    network = os.open(f"/proc/{asked['pid']}/ns/net", os.O_RDONLY)
    enter(fcntl.ioctl(network, NS_GET_USERNS), CLONE_NEWUSER)
    enter(network, CLONE_NEWNET)
    sockets = [listening(port) for port in asked["ports"]]
    with socket.socket(fileno=asked["socket"]) as back:
        socket.send_fds(back, [b"."], [one.fileno() for one in sockets])


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(CANNOT)
