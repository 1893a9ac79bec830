"""What a patch changes, by the trees before and after it, and the rules that it has to keep. Pure."""

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from loops.errors import Fault, RepositoryError
from loops.invisible import without_invisible

LINK = "120000"
MODULE = "160000"
ABSENT = "000000"
_FILES = frozenset({"100644", "100755"})
_RAW = re.compile(rb":(\d{6}) (\d{6}) ([0-9a-f]{40,64}) ([0-9a-f]{40,64}) ([A-Z])\d*")

PROTECTED: Mapping[str, Sequence[str]] = {
    "continuous integration": (
        ".github/*", ".gitlab-ci*", ".gitlab/*", ".circleci/*", ".buildkite/*", ".azure-pipelines*",
        "azure-pipelines*", ".travis.y*ml", "appveyor.y*ml", ".appveyor.y*ml", ".drone.y*ml", ".woodpecker*",
        "jenkinsfile*", "bitbucket-pipelines.y*ml", ".teamcity/*", ".semaphore/*", ".forgejo/*", ".gitea/*",
        "cloudbuild.y*ml", "*/action.y*ml", "action.y*ml",
    ),
    "instructions of agents": (
        "claude.md", "claude.local.md", "agents.md", "agents.override.md", "gemini.md", "copilot-instructions.md",
        ".claude/*", ".mcp.json", ".cursor/*", ".cursorrules", ".windsurf/*", ".windsurfrules", ".codex/*",
        ".agents/*", ".gemini/*", ".clinerules*", ".roo/*", ".aider*", "skill.md", "/skills/*",
    ),
    "settings of git": (".gitmodules", ".gitattributes", ".gitconfig", ".lfsconfig", ".githooks/*"),
    "hooks and settings of tools": (
        ".husky/*", ".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "lefthook*.y*ml", ".lefthook*.y*ml",
        ".npmrc", ".yarnrc*", ".yarn/*", ".pnpmfile.*", "pnpmfile.*", ".pypirc", "pip.conf", ".envrc",
        ".devcontainer/*", ".devcontainer.json", ".vscode/*", ".idea/*",
    ),
    "code owners": ("codeowners",),
}  # fmt: skip
"""Files that no agent's change may touch, wherever they stand (with a slash in front: at the root alone). Names are
compared without case."""

SECRETS: Mapping[str, "re.Pattern[str]"] = {
    "a private key": re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    "a token of GitHub": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{60,})"),
    "a token of GitLab": re.compile(r"\bglpat-[A-Za-z0-9_-]{20,}"),
    "a token of Slack": re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{20,}|\bxapp-\d-[A-Za-z0-9-]{20,}"),
    "a webhook of Slack": re.compile(r"hooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]{20,}"),
    "a key of AWS": re.compile(r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    "a key of Google": re.compile(r"\bAIza[A-Za-z0-9_-]{35}\b"),
    "a key of Anthropic": re.compile(r"\bsk-ant-[A-Za-z0-9_-]{24,}"),
    "a key of OpenAI": re.compile(r"\bsk-(?!ant-)(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{40,}"),
    "a key of Stripe": re.compile(r"\b[rs]k_live_[A-Za-z0-9]{20,}"),
    "a token of npm": re.compile(r"\bnpm_[A-Za-z0-9]{36}\b"),
    "a token of PyPI": re.compile(r"\bpypi-[A-Za-z0-9_-]{50,}"),
    "a token of Loops": re.compile(r"\bloops_[A-Za-z0-9_-]{43}\b"),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One file of a change. Modes are git's, ABSENT where there is none; `old` and `blob` name its contents before and
    after; `size` and, of a link, `target` are those of the new file."""

    path: str
    before: str
    after: str
    old: str
    blob: str
    size: int = 0
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What is taken: so many files, of so many bytes in all. `protected` are further patterns of names, as in
    PROTECTED; `known` finds a secret of this service in a text."""

    files: int = 100
    size: int = 16 << 20
    protected: Sequence[str] = ()
    known: Callable[[str], bool] = field(default=lambda _text: False)


def read_changes(raw: bytes) -> list[Change]:
    """What `git diff-tree -r --raw -z --no-renames` said."""
    parts = raw.split(b"\0")
    changes = []
    for head, name in zip(parts[:-1:2], parts[1::2], strict=True):
        found = _RAW.fullmatch(head)
        if found is None:
            raise RepositoryError("git told of a change in a form that is not known")
        before, after, old, blob, _ = (one.decode() for one in found.groups())
        changes.append(Change(name.decode("utf-8", "surrogateescape"), before, after, old, blob))
    return changes


def violations(changes: Sequence[Change], added: Mapping[str, str], rules: Rules) -> list[Fault]:
    """Every rule that a change breaks, by file. `added` are the lines that each file gets."""
    found = list(_whole(changes, rules))
    for change in changes:
        found += _of_file(change, rules)
        found += _secrets(change.path, added.get(change.path, ""), rules)
    return found


def _whole(changes: Sequence[Change], rules: Rules) -> Iterator[Fault]:
    if len(changes) > rules.files:
        told = f"{len(changes)} files are changed; {rules.files} are taken"
        yield Fault(".", told, "ask for less at once, and see that no built or downloaded files are added", "files")
    size = sum(change.size for change in changes)
    if size > rules.size:
        yield Fault(
            ".", f"the changed files have {size} bytes; {rules.size} are taken", "leave large files out", "size"
        )


def _of_file(change: Change, rules: Rules) -> Iterator[Fault]:
    path = change.path
    if (odd := _odd(path)) is not None:
        yield Fault(_shown(path), odd, "give the file another name", "path")
    if (kind := protected_as(path, rules.protected)) is not None:
        hint = "a person has to make this change: the agent may describe it in the pull request"
        yield Fault(_shown(path), f"belongs to the {kind}, which no agent changes", hint, "protected")
    if MODULE in {change.before, change.after}:
        yield Fault(_shown(path), "is a submodule", "leave submodules as they are", "submodule")
    elif change.after == LINK and (away := _leads_away(path, change.target)) is not None:
        yield Fault(_shown(path), away, "let links lead to files of the repository alone", "symlink")
    if ABSENT not in {change.before, change.after} and change.before != change.after:
        told = f"its mode goes from {change.before} to {change.after}"
        yield Fault(_shown(path), told, "keep the kind and the executable bit of files that are there", "mode")
    elif change.after not in {*_FILES, LINK, MODULE, ABSENT}:
        yield Fault(_shown(path), f"its mode is {change.after}", "", "mode")


def protected_as(path: str, more: Sequence[str] = ()) -> str | None:
    """The kind of protected file that a path is; None for the others."""
    plain = _plain(path)
    for kind, patterns in (*PROTECTED.items(), ("files that this service protects", more)):
        for pattern in patterns:
            wanted = pattern.lower().removeprefix("/")
            if fnmatchcase(plain, wanted) or (wanted == pattern.lower() and fnmatchcase(plain, f"*/{wanted}")):
                return kind
    return None


def _odd(path: str) -> str | None:
    """Why a path is none that a file may have."""
    parts = path.split("/")
    if path.startswith("/") or any(part in {"", ".", ".."} for part in parts):
        return "its path leads out of the repository"
    if any(_plain(part).rstrip(". ") in {".git", "git~1"} for part in parts):
        return "its path leads into git's own folder"
    if "\\" in path or ":" in path:
        return "its path means another one on Windows"
    if any(ord(letter) < 32 or 0xD800 <= ord(letter) <= 0xDFFF for letter in path):
        return "its name holds letters that no name should"
    if without_invisible(path) != path:
        return "its name holds letters that cannot be seen"
    return None


def _leads_away(path: str, target: str | None) -> str | None:
    if target is None or not target or target.startswith("/") or "\\" in target or "\0" in target:
        return f"is a link to {_shown(target or 'nothing')}"
    leads = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if leads.startswith("..") or _odd(leads) is not None:
        return f"is a link that leads out of the repository, to {_shown(target)}"
    kind = protected_as(leads) or protected_as(f"{leads}/x")
    return None if kind is None else f"is a link to {_shown(leads)}, which belongs to the {kind}"


def _secrets(path: str, added: str, rules: Rules) -> Iterator[Fault]:
    hint = "let the agent read it from the environment; change the secret where it may have been seen"
    if rules.known(added) or rules.known(path):
        yield Fault(_shown(path), "holds a secret of this service", hint, "secret")
    for kind, pattern in SECRETS.items():
        if pattern.search(added):
            yield Fault(_shown(path), f"holds what looks like {kind}", hint, "secret")


def _plain(path: str) -> str:
    """The path as careless file systems take it."""
    return unicodedata.normalize("NFKC", without_invisible(path)).casefold()


def _shown(path: str) -> str:
    """A path on one line, at most 200 characters."""
    safe = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    seen = "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in safe)
    return seen if len(seen) <= 200 else f"{seen[:199]}…"
