"""The symbolic links of a tree: where each leads, and by which other names a file is reached through them. Pure.

Where several names are one on a careless file system, all that they could mean is looked at.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from loops.tasks.workspace.names import is_git, plain, plain_name, shown

_MOST_HOPS = 40
_MOST_STEPS = 4_000
_LONGEST = 4_096
"""Of a target, in characters; there is no system that takes more."""
_MOST_NAMES = 2_000
_FAR = "is a link that leads in circles, or further than can be looked at"


@dataclass(slots=True)
class Way:
    """Where a link leads: the `places` that it may come to, the links that it `passes`, itself among them, and why that
    is nowhere in the repository."""

    places: set[str] = field(default_factory=set)
    passes: set[str] = field(default_factory=set)
    fault: str | None = None


class Links:
    """The links of a tree, by their paths."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        self.targets = targets
        self._ways: dict[str, Way] = {}
        self._alike: dict[tuple[str, ...], list[str]] = {}
        for path in targets:
            self._alike.setdefault(_folded(path), []).append(path)
        self._deepest = max(map(len, self._alike), default=0)

    def way(self, link: str) -> Way:
        """Where one leads."""
        if link not in self._ways:
            self._ways[link] = self._walked(link)
        return self._ways[link]

    def names(self, path: str) -> set[str] | None:
        """All names of a path, itself among them; None where there are too many to be looked at.

        No link is gone through twice, and one link at most that leads to a folder in which it stands itself: there
        would be no end.
        """
        found, left = {path}, [(path, frozenset[str]())]
        while left:
            name, used = left.pop()
            for link, rest in self._above(name):
                other = f"{link}/{rest}" if rest else link
                if other in found or link in used or (link in self._upward and used & self._upward):
                    continue
                found.add(other)
                left.append((other, used | {link}))
                if len(found) > _MOST_NAMES:
                    return None
        return found

    def _walked(self, link: str) -> Way:
        way = Way()
        left = [_Step((), (), tuple(link.split("/")), 0)]
        for _ in range(_MOST_STEPS):
            if not left:
                return way
            step = left.pop()
            if not step.rest:
                way.places.add("/".join(step.at))
                continue
            try:
                left += self._next(step, way)
            except _AstrayError as astray:
                way.fault = str(astray)
                return way
        way.fault = _FAR
        return way

    def _next(self, step: "_Step", way: Way) -> Iterator["_Step"]:
        """The places that are one name further. Raises _AstrayError."""
        part, rest = step.rest[0], step.rest[1:]
        if part in {"", "."}:
            yield replace(step, rest=rest)
        elif part == "..":
            if not step.at:
                raise _AstrayError("is a link that leads out of the repository")
            yield _Step(step.at[:-1], step.folded[:-1], rest, step.hops)
        elif is_git(part):
            raise _AstrayError("is a link that leads into git's own folder")
        else:
            inner = _Step((*step.at, part), (*step.folded, plain_name(part)), rest, step.hops)
            links = self._alike.get(inner.folded, ()) if len(inner.at) <= self._deepest else ()
            for link in links:
                way.passes.add(link)
                yield step.through(self.targets[link])
            if not links or "/".join(inner.at) not in self.targets:
                yield inner

    def _above(self, name: str) -> Iterator[tuple[str, str]]:
        """The links that lead to a path or a folder above it, and what is left of it there."""
        parts = name.split("/")
        folded = plain(name).split("/")
        for end in range(len(parts) + 1):
            for link in self._leading.get("/".join(folded[:end]), ()):
                yield link, "/".join(parts[end:])

    @cached_property
    def _leading(self) -> Mapping[str, list[str]]:
        """The links by what they lead to or pass."""
        found: dict[str, list[str]] = {}
        for link in self.targets:
            way = self.way(link)
            for place in map(plain, way.places | way.passes - {link}):
                found.setdefault(place, []).append(link)  # twice, maybe, which changes nothing
        return found

    @cached_property
    def _upward(self) -> frozenset[str]:
        """The links that lead to a folder above themselves."""
        return frozenset(
            link
            for link in self.targets
            for place in self.way(link).places
            if not place or f"{plain(link)}/".startswith(f"{plain(place)}/")
        )


@dataclass(frozen=True, slots=True)
class _Step:
    """A folder on the way, and the names that are left to go from there."""

    at: tuple[str, ...]
    folded: tuple[str, ...]
    rest: tuple[str, ...]
    hops: int

    def through(self, target: str) -> "_Step":
        """On from here where the next name is a link. Raises _AstrayError."""
        if not target or target.startswith("/") or "\\" in target or "\0" in target or len(target) > _LONGEST:
            raise _AstrayError(f"is a link to {shown(target or 'nothing')}")
        rest = (*target.split("/"), *self.rest[1:])
        if self.hops == _MOST_HOPS or len(rest) > _LONGEST:
            raise _AstrayError(_FAR)
        return _Step(self.at, self.folded, rest, self.hops + 1)


class _AstrayError(Exception):
    """A link leads nowhere in the repository."""


def _folded(path: str) -> tuple[str, ...]:
    return tuple(map(plain_name, path.split("/")))
