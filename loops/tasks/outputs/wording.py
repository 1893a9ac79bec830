"""What an agent says, as it is written to GitHub: it calls nobody, and says where it comes from. Pure."""

import hashlib
import re
import unicodedata
from collections.abc import Callable

from loops.agent.sanitise import sanitised
from loops.own_output import BRANCHES
from loops.tasks.outputs.inert import inert, inert_around_code, inert_plain

LONGEST = 62_000
"""Of a text with all that is added to it; GitHub takes 65,536 characters."""
_LONGEST_SLUG = 40
_LONGEST_SUBJECT = 100


def said(text: str, home: str = "", *, becomes_commit: bool = False) -> str:
    """A text of an agent's for an issue, a comment or a pull request on the GitHub whose host is `home`.

    Whoever it mentions is not called, other repositories hear nothing of it, no line is an order to a bot, and nothing
    in it keeps checks from running or names another author where it becomes a commit.
    """
    whole = inert(text, home) if becomes_commit or len(text) > LONGEST else inert_around_code(text, home)
    return whole[:LONGEST].rstrip() if len(whole) <= LONGEST else inert(text, home)[:LONGEST].rstrip()


def title_line(text: str, most: int = 200, home: str = "") -> str:
    """One line, without mentions."""
    line = inert_plain(" ".join(text.split()), home)
    line = " ".join(line.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def commit_message(title: str, body: str, home: str = "") -> str:
    """The message of a commit: nothing in it keeps the checks of the repository from running, and it has one author."""
    subject = title_line(title, _LONGEST_SUBJECT, home)
    rest = inert_plain(body, home)[:LONGEST].rstrip()
    return f"{subject}\n\n{rest}\n" if rest else f"{subject}\n"


def branch_name(title: str, place: str) -> str:
    """The branch of a pull request of a task's turn, which `place` names: the same whenever it is asked for, and no
    other's."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_LONGEST_SLUG].strip("-")
    return f"{BRANCHES}{slug or 'task'}-{hashlib.sha256(place.encode()).hexdigest()[:12]}"


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
