"""What an agent says, as it is written to GitHub: it calls nobody, and says where it comes from. Pure."""

import hashlib
import re
import unicodedata
from collections.abc import Callable

from loops.agent.sanitise import sanitised
from loops.own_output import BRANCHES

LONGEST = 62_000
"""Of a text with all that is added to it; GitHub takes 65,536 characters."""
_LONGEST_SLUG = 40
_LONGEST_SUBJECT = 100
_CODE = re.compile(r"(```[\s\S]*?(?:```|\Z)|~~~[\s\S]*?(?:~~~|\Z)|`[^`\n]+`)")
_MENTION = re.compile(r"(?<![\w@/.])@([A-Za-z0-9][A-Za-z0-9-]{0,38}(?:/[A-Za-z0-9._-]{0,100}[A-Za-z0-9_-])?)(?![\w@])")
_ELSEWHERE = re.compile(r"(?<![\w/.-])([A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}#\d+)\b")
_ORDER = re.compile(r"^([ \t]*)/(?=[A-Za-z])", re.MULTILINE)
_SKIPS = re.compile(r"\[\s*(skip ci|ci skip|no ci|skip actions|actions skip)\s*\]|^\s*skip-checks:.*$", re.I | re.M)


def said(text: str) -> str:
    """A text of an agent's for an issue, a comment or a pull request.

    Whoever it mentions is not called, other repositories hear nothing of it, and no line is an order to a bot.
    """
    parts = _CODE.split(sanitised(text))
    # Every second part is code, where GitHub sees neither mentions nor references.
    return "".join(part if number % 2 else _quiet(part) for number, part in enumerate(parts))[:LONGEST].strip()


def _quiet(text: str) -> str:
    text = _MENTION.sub(lambda found: f"`{found[0]}`", text)
    text = _ELSEWHERE.sub(lambda found: f"`{found[0]}`", text)
    return _ORDER.sub(lambda found: f"{found[1]}\\/", text)


def title_line(text: str, most: int = 200) -> str:
    """One line, without mentions."""
    line = " ".join(sanitised(text).split())
    line = _MENTION.sub(lambda found: found[1], line).strip()
    return line if len(line) <= most else f"{line[: most - 1]}…"


def commit_message(title: str, body: str) -> str:
    """The message of a commit: nothing in it keeps the checks of the repository from running."""
    subject = title_line(title, _LONGEST_SUBJECT)
    rest = said(body)
    whole = f"{subject}\n\n{rest}\n" if rest else f"{subject}\n"
    return _SKIPS.sub(lambda found: f"({found[1]})" if found[1] else "", whole)


def branch_name(title: str, task_id: str) -> str:
    """The branch of a task's pull request: the same whenever it is asked for, and no other's."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_LONGEST_SLUG].strip("-")
    return f"{BRANCHES}{slug or 'task'}-{hashlib.sha256(task_id.encode()).hexdigest()[:12]}"


def with_footer(text: str, link: str, marker: str, mark: str, what: str) -> str:
    """The text with what says where it comes from, `marker` for us to find it again, and the mark of own output."""
    run = f"[a run of Loops]({link})" if link else "a run of Loops"
    return f"{text}\n\n---\n_{what} by {run}._\n{marker}\n{mark}"


def marker_of(task_id: str, number: int) -> str:
    """What an output is found again by; it proves nothing, so whose it is has to be looked at."""
    return f"<!-- loops output={task_id}-{number} -->"


def from_report(report: str, title: str, mask: Callable[[str], str]) -> dict[str, str]:
    """Title and body of the pull request of an agent that changed files and asked for none."""
    return {"title": title_line(title) or "Change by a task", "body": mask(sanitised(report)).strip(), "message": ""}
