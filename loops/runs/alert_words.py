"""Where alerts go, and what they say."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from loops.brief import one_line
from loops.definition.inputs.base import connection_number
from loops.definition.stored import stored_actions
from loops.event import JsonValue
from loops.runs.alerts import Failing, Recovered

Kind = Literal["slack", "email", "page"]


@dataclass(frozen=True, slots=True)
class AlertTarget:
    """Who is told: a channel by its id or #name, an address, or nobody but whoever looks at the page."""

    kind: Kind
    connection: int | None = None
    to: str = ""

    def as_json(self) -> dict[str, Any]:
        """What read_target reads."""
        return {"kind": self.kind, "connection": self.connection, "to": self.to}

    def inputs(self, said: "Said") -> dict[str, JsonValue]:
        """The inputs of the template that sends it."""
        if self.kind == "slack":
            return {"slack_workspace": self.connection, "channel": self.to, "text": said.markdown}
        if self.kind == "email":
            mail: dict[str, JsonValue] = {"subject": said.subject, "text": said.plain, "html": ""}
            return {"email": {"from": {"integrationId": self.connection}, "to": {"email": self.to}, **mail}}
        return {"text": said.plain}  # a page shows it as it is written


PAGE = AlertTarget("page")


@dataclass(frozen=True, slots=True)
class Said:
    """A notice in the forms that it may be sent in."""

    subject: str
    plain: str
    markdown: str


def read_target(stored: object) -> AlertTarget | None:
    """A stored target; None where none is stored."""
    if not isinstance(stored, Mapping):
        return None
    return AlertTarget(stored["kind"], stored.get("connection"), stored.get("to") or "")


def loop_target(definition: object) -> AlertTarget | None:
    """Where a loop tells its result: the first step that sends a message to somebody who is named in it."""
    return next(_targets(stored_actions(definition)), None)


def _targets(actions: Iterable[Mapping[str, Any]]) -> Iterator[AlertTarget]:
    for action in actions:
        config = action.get("config")
        given = config.get("inputs") if isinstance(config, Mapping) else None
        if isinstance(config, Mapping) and isinstance(given, Mapping):
            values = {name: one.get("value") for name, one in given.items() if isinstance(one, Mapping)}
            target = step_target(config.get("template_id"), values)
            if target is not None:
                yield target


def step_target(template_id: object, values: Mapping[str, object]) -> AlertTarget | None:
    """Whom a step sends its message to; None for one that sends none, or where a template decides."""
    if template_id == "template-slack":
        channel = values.get("channel")
        to = channel.split("|")[0].strip() if isinstance(channel, str) and "{" not in channel else ""
        return AlertTarget("slack", connection_number(values.get("slack_workspace")), to) if to else None
    mail = values.get("email") if template_id == "template-email" else None
    recipient, sender = (mail.get("to"), mail.get("from")) if isinstance(mail, Mapping) else (None, None)
    address = recipient.get("email") if isinstance(recipient, Mapping) else None
    if not isinstance(address, str) or "{" in address or not isinstance(sender, Mapping):
        return None
    return AlertTarget("email", connection_number(sender.get("integrationId")), address)


def words(loop: str, told: Failing | Recovered, link: str) -> Said:
    """What is said of a loop; `link` leads to the run."""
    name = " ".join(loop.split()) or "A loop without a name"
    if isinstance(told, Recovered):
        head, reason = f"{name} works again", ""
        more = f"It failed {_times(told.failures)} before."
    else:
        head, reason = f"{name} failed", one_line(told.reason)
        more = f"{_runs(told.before)} failed since the last alert." if told.before else ""
    quoted = "```\n" + reason.replace("```", "'''") + "\n```" if reason else ""
    plain = "\n\n".join(part for part in (f"{head}.", reason, more, link) if part)
    markdown = "\n".join(part for part in (f"{_literal(head)}.", quoted, more, f"[The run]({link})") if part)
    return Said(head, plain, markdown)


def _literal(text: str) -> str:
    """A text in which nothing is Markdown."""
    return "".join(f"\\{letter}" if letter in r"\`*_[]<>~|#" else letter for letter in text)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _runs(count: int) -> str:
    return "1 more run" if count == 1 else f"{count} more runs"
