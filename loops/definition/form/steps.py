"""The steps of a loop: the AI task and the message, to and from the values of the form."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from loops.definition.findings import Findings, join
from loops.definition.form.inputs import written, written_out
from loops.definition.form.values import EmailNotice, Inputs, Notice, Output, SlackNotice, Task
from loops.definition.schema.actions import EmailConfig, FunctionConfig
from loops.definition.schema.parts import OutputMapping, Variable
from loops.event import JsonValue

TASK, SLACK, EMAIL = "template-posthog-create-task", "template-slack", "template-email"
_EMAIL_KEYS = ("message_category_id", "message_category_type", "tracking_enabled")
_NO_MAPPINGS: tuple[JsonValue, ...] = (None, [])


def task_config(task: Task) -> dict[str, JsonValue]:
    """The config of the step that creates the task."""
    model: JsonValue = None
    if task.model:
        model = {"model": task.model, **({"reasoning_effort": task.effort} if task.effort else {})}
    values: dict[str, JsonValue] = {
        "prompt": task.prompt,
        "title": task.title,
        "model": model,
        "repository": task.repository,
        "staged": task.staged,
        "connectors": list(task.connectors) or None,
        "skills": [*task.skills] or None,
        "posthog_mcp_scopes": task.scopes,
        "channel": task.space,
        "reply_in_slack_thread": task.reply_in_thread,
        "allow_external_users": task.external_users,
        "allow_everyone_in_thread": task.everyone_in_thread,
        "max_parallel_tasks": task.most_at_once,
        "non_failure_status_codes": list(task.non_failures),
    }
    return {"template_id": TASK, "inputs": written_out(values)}


def task_of(
    config: FunctionConfig,
    outputs: Sequence[OutputMapping],
    declared: Mapping[str, Variable],
    path: str,
    findings: Findings,
) -> Task:
    """What the form shows of a task whose step stands at `path`."""
    place = join(path, "config")
    given = _values(config, place, findings)
    chosen = given.get("model")
    model = chosen if isinstance(chosen, dict) else {"model": chosen}
    return Task(
        prompt=_text(given, "prompt"),
        title=_text(given, "title"),
        model=_text(model, "model"),
        effort=_text(model, "reasoning_effort"),
        repository=_text(given, "repository"),
        staged=cast("bool | None", given.get("staged")),
        connectors=_list(given, "connectors"),
        skills=cast("tuple[str, ...]", _list(given, "skills")),
        scopes="full" if given.get("posthog_mcp_scopes") == "full" else "read_only",
        space=_text(given, "channel"),
        reply_in_thread=cast("bool | None", given.get("reply_in_slack_thread")),
        external_users=cast("bool | None", given.get("allow_external_users")),
        everyone_in_thread=cast("bool | None", given.get("allow_everyone_in_thread")),
        most_at_once=cast("int | None", given.get("max_parallel_tasks")),
        non_failures=_list(given, "non_failure_status_codes") if "non_failure_status_codes" in given else (409,),
        outputs=tuple(_outputs(outputs, declared, join(path, "output_variable"), findings)),
    )


def _outputs(
    outputs: Sequence[OutputMapping], declared: Mapping[str, Variable], path: str, findings: Findings
) -> list[Output]:
    found: list[Output] = []
    for index, one in enumerate(outputs):
        if one.spread or one.result_path is None or one.label is not None:
            findings.refuse(join(path, index), "the form sets a variable from one place of the result")
        if one.key in [other.key for other in found]:
            findings.refuse(join(path, index, "key"), "the form sets a variable once")
        variable = declared.get(one.key)
        said = ("", "", "") if variable is None else (variable.type, variable.default, variable.label)
        found.append(Output(one.key, one.result_path or "", *cast("Any", said)))
    return found


def notice_step(notice: Notice) -> dict[str, JsonValue]:
    """The type and config of the step that sends the message."""
    match notice:
        case SlackNotice():
            said: Inputs = {
                "slack_workspace": notice.connection,
                "channel": notice.channel,
                "text": notice.text,
                "thread_ts": notice.thread,
                **notice.more,
            }
            return {"type": "function", "config": {"template_id": SLACK, "inputs": written_out(said)}}
        case EmailNotice():
            return {"type": "function_email", "config": _email_config(notice)}


def _email_config(notice: EmailNotice) -> dict[str, JsonValue]:
    kept = {key: value for key, value in notice.more.items() if key in _EMAIL_KEYS}
    sender: dict[str, JsonValue] = {"integrationId": notice.connection}
    sender |= {"name": notice.sender_name} if notice.sender_name else {}
    sender |= {"email": notice.sender_email} if notice.sender_email else {}
    mail: dict[str, JsonValue] = {
        "from": sender,
        "to": {"email": notice.to, "name": notice.to_name},
        "subject": notice.subject,
        "text": notice.text,
        "html": notice.html,
    }
    if "design" in notice.more:
        mail["design"] = notice.more["design"]
    return {"template_id": EMAIL, "inputs": {"email": {"value": mail}}, **kept}


def notice_of(config: FunctionConfig, path: str, findings: Findings) -> Notice:
    """What the form shows of a message whose step stands at `path`."""
    place = join(path, "config")
    if isinstance(config, EmailConfig):
        return _email_of(config, place, findings)
    given = _values(config, place, findings)
    return SlackNotice(
        connection=given.pop("slack_workspace", None),
        channel=str(given.pop("channel", "")),
        text=str(given.pop("text", "")),
        thread=str(given.pop("thread_ts", "")),
        more=given,
    )


def _email_of(config: EmailConfig, path: str, findings: Findings) -> EmailNotice:
    given = _values(config, path, findings, "liquid").get("email")
    mail = given if isinstance(given, dict) else {}
    sender, to = mail.get("from"), mail.get("to")
    sender, to = sender if isinstance(sender, dict) else {}, to if isinstance(to, dict) else {}
    more: dict[str, Any] = {key: getattr(config, key) for key in _EMAIL_KEYS if getattr(config, key) is not None}
    if mail.get("design") is not None:
        more["design"] = mail["design"]
    return EmailNotice(
        connection=sender.get("integrationId"),
        to=_text(to, "email"),
        subject=_text(mail, "subject"),
        text=_text(mail, "text"),
        html=_text(mail, "html"),
        to_name=_text(to, "name"),
        sender_name=_text(sender, "name"),
        sender_email=_text(sender, "email"),
        more=more,
    )


def _values(config: FunctionConfig, path: str, findings: Findings, language: str = "hog") -> dict[str, JsonValue]:
    if config.template_uuid is not None:
        findings.refuse(join(path, "template_uuid"), "the form shows no saved template")
    return written(config.inputs, join(path, "inputs"), findings, language)


def _text(given: Mapping[str, JsonValue], key: str) -> str:
    value = given.get(key)
    return value if isinstance(value, str) else ""


def _list(given: Mapping[str, JsonValue], key: str) -> tuple[JsonValue, ...]:
    value = given.get(key)
    return tuple(value) if isinstance(value, list) else ()
