"""What a patch changes, by the trees before and after it, and the rules that it has to keep. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from loops.errors import Fault, RepositoryError
from loops.tasks.workspace.links import Links
from loops.tasks.workspace.names import odd, shown
from loops.tasks.workspace.protected import protected_as

LINK = "120000"
MODULE = "160000"
ABSENT = "000000"
_FILES = frozenset({"100644", "100755"})
_LINKS = frozenset({LINK, MODULE})
"""What may stand for a folder."""
_RAW = re.compile(rb":(\d{6}) (\d{6}) ([0-9a-f]{40,64}) ([0-9a-f]{40,64}) ([A-Z])\d*")

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
    protected.PROTECTED; `known` finds a secret of this service in a text."""

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


def violations(
    changes: Sequence[Change], added: Mapping[str, str], rules: Rules, links: Mapping[str, str] | None = None
) -> list[Fault]:
    """Every rule that a change breaks, by file. `added` are the lines that each file gets, `links` those of the tree
    before it, with what they hold."""
    if any(rules.known(f"{change.path}\n{change.target or ''}") for change in changes):
        hint = "change the secret where it may have been seen"
        return [
            Fault(".", "the name of a file, or what a link leads to, holds a secret of this service", hint, "secret")
        ]
    before = after = Links(links or {})
    if any(LINK in {change.before, change.after} for change in changes):
        after = Links(_after(changes, before.targets))
    found = list(too_much(changes, rules))
    for change in changes:
        found += _of_file(change, (before, after), rules)
        found += _secrets(change.path, added.get(change.path, ""), rules)
    found += _led_away(changes, before, after, rules)
    return found


def too_much(changes: Sequence[Change], rules: Rules) -> Iterator[Fault]:
    """Whether a change is too large as a whole, which is known before any of it is read."""
    if len(changes) > rules.files:
        told = f"{len(changes)} files are changed; {rules.files} are taken"
        yield Fault(".", told, "ask for less at once, and see that no built or downloaded files are added", "files")
    size = sum(change.size for change in changes)
    if size > rules.size:
        yield Fault(
            ".", f"the changed files have {size} bytes; {rules.size} are taken", "leave large files out", "size"
        )


def _of_file(change: Change, trees: Sequence[Links], rules: Rules) -> Iterator[Fault]:
    path = change.path
    if (why := odd(path)) is not None:
        yield Fault(shown(path), why, "give the file another name", "path")
    if (told := _protected(change, trees, rules)) is not None:
        hint = "a person has to make this change: the agent may describe it in the pull request"
        yield Fault(shown(path), told, hint, "protected")
    if MODULE in {change.before, change.after}:
        yield Fault(shown(path), "is a submodule", "leave submodules as they are", "submodule")
    if ABSENT not in {change.before, change.after} and change.before != change.after:
        told = f"its mode goes from {change.before} to {change.after}"
        yield Fault(shown(path), told, "keep the kind and the executable bit of files that are there", "mode")
    elif change.after not in {*_FILES, LINK, MODULE, ABSENT}:
        yield Fault(shown(path), f"its mode is {change.after}", "", "mode")


def _protected(change: Change, trees: Sequence[Links], rules: Rules) -> str | None:
    """Why no agent changes a file, under any of the names that it has before or after."""
    hidden = _LINKS & {change.before, change.after} != set()
    for tree in dict.fromkeys(trees):
        names = tree.names(change.path)
        if names is None:
            return "has more names by links than can be looked at"
        for name in sorted(names, key=lambda one: (one != change.path, one)):
            if (kind := protected_as(name, rules.protected, link=hidden)) is not None:
                through = "" if name == change.path else f"is {shown(name)} too, by a link, and "
                return f"{through}belongs to the {kind}, which no agent changes"
    return None


def _led_away(changes: Sequence[Change], before: Links, after: Links, rules: Rules) -> Iterator[Fault]:
    """The links that lead where none may: those of the change, and those that lead somewhere else by it."""
    changed = {change.path for change in changes}
    for path in after.targets:
        if path not in changed and (after is before or after.way(path) == before.way(path)):
            continue
        if (away := _leads_away(path, after, rules)) is not None:
            yield Fault(shown(path), away, "let links lead to files of the repository alone", "symlink")


def _leads_away(path: str, tree: Links, rules: Rules) -> str | None:
    way = tree.way(path)
    if way.fault is not None:
        return way.fault
    for place in sorted(way.places):
        if not place:
            return "is a link to the whole repository"
        if odd(place) is not None:
            return f"is a link to {shown(place)}: {odd(place)}"
        if (kind := protected_as(place, rules.protected, link=True)) is not None:
            return f"is a link to {shown(place)}, which belongs to the {kind}"
    return None


def _after(changes: Sequence[Change], links: Mapping[str, str]) -> Mapping[str, str]:
    """The links of the tree that comes of a change."""
    changed = {change.path for change in changes}
    kept = {path: target for path, target in links.items() if path not in changed}
    return kept | {change.path: change.target or "" for change in changes if change.after == LINK}


def _secrets(path: str, added: str, rules: Rules) -> Iterator[Fault]:
    hint = "let the agent read it from the environment; change the secret where it may have been seen"
    if rules.known(added):
        yield Fault(shown(path), "holds a secret of this service", hint, "secret")
    for kind, pattern in SECRETS.items():
        if pattern.search(added):
            yield Fault(shown(path), f"holds what looks like {kind}", hint, "secret")
