"""What is legal and probably not meant. A rule has a code that stays; docs/reference/lint.md is printed from the table:

python -m loops.definition.lint > docs/reference/lint.md
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from loops.definition import lint_filters, lint_messages, lint_tasks, lint_templates, lint_triggers
from loops.definition.asked import Listening
from loops.definition.findings import EVENT_TEXT, MASKS_NOBODY, UNDECLARED, Findings, few_suggestions
from loops.definition.lint_messages import channels_of
from loops.definition.lint_subject import NOTHING_KNOWN, Outside, Subject
from loops.definition.lint_tasks import repositories_of
from loops.definition.workflow import Workflow
from loops.errors import Fault

__all__ = ["CODES", "RULES", "Outside", "channels_of", "lint", "linted", "repositories_of"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is looked for: what it is and why it matters, for whoever reads the reference. Without `find` it
    is found where the workflow is read. An `error` refuses the workflow."""

    code: str
    what: str
    why: str
    find: Callable[[Subject], Iterator[Fault]] | None = None
    level: Literal["warning", "error"] = "warning"


def lint(workflow: Workflow, outside: Outside = NOTHING_KNOWN) -> tuple[Fault, ...]:
    """Every finding about a workflow that was accepted, each with its rule's code."""
    subject, findings = Subject(workflow, outside), Findings()
    seen: set[tuple[str, str, str]] = set()
    with few_suggestions():
        for rule in RULES:
            for fault in rule.find(subject) if rule.find is not None else ():
                if (rule.code, fault.path, fault.message) not in seen:  # what is asked of every event is found once
                    seen.add((rule.code, fault.path, fault.message))
                    findings.warn(fault.path, fault.message, fault.hint, rule.code)
    return tuple(findings.warnings)


def linted(workflow: Workflow, outside: Outside = NOTHING_KNOWN) -> Workflow:
    """The workflow with what was found among its warnings."""
    return replace(workflow, warnings=(*workflow.warnings, *lint(workflow, outside)))


def _each(find: Callable[[Listening], Iterator[Fault]]) -> Callable[[Subject], Iterator[Fault]]:
    """A rule about filters, held against each event that the trigger names."""

    def found(subject: Subject) -> Iterator[Fault]:
        for one in subject.events:
            yield from find(one)

    return found


def _unknown(subject: Subject) -> Iterator[Fault]:
    yield from _each(lint_filters.unknown_properties)(subject)
    yield from lint_templates.unknown_reads(subject)


RULES: tuple[Rule, ...] = (
    Rule(
        EVENT_TEXT,
        "`prompt` or `title` of an AI task holds text of the event, the person or another step",
        "Whoever writes an issue or a message would be instructing the agent. Say in words which property to read: the "
        "task is given the whole event as data.",
        level="error",
    ),
    Rule(
        "github-without-actor-access",
        "a GitHub loop with an AI task and no filter on `actor_access`",
        "Anybody can open an issue in a public repository, and would start the task. A filter on `sender` or "
        "`author_association` counts too; a push is always by somebody who may write.",
        lint_triggers.without_access,
    ),
    Rule(
        "slack-without-bot-filter",
        "a Slack loop without a filter on `bot_id`",
        "Every alert of another app would start a run. `app_id` or `user` count too.",
        lint_triggers.hears_apps,
    ),
    Rule(
        "slack-without-thread-filter",
        "a Slack loop without a filter on `thread_ts`",
        "Every reply in every thread would start a run. `is_thread_reply` counts too: with `is_set` it says that "
        "replies are meant.",
        lint_triggers.hears_replies,
    ),
    Rule(
        "pull-request-without-action",
        "a loop on `pull_request` without a filter on `action`",
        "It would start at every push to an open pull request, and at every label.",
        lint_triggers.every_push,
    ),
    Rule(
        "busy-event-unmasked",
        "a PostHog event that SDKs send by themselves, or every event, with nothing that holds it back",
        "Each one would start a run, and use up the day's tasks of the whole project.",
        lint_triggers.unmasked,
    ),
    Rule(
        "rate-limit-before-debounce",
        "`trigger_rate_limit` beside `trigger_debounce`",
        "What debounce holds counts for the limit: where that is full, the last event of a burst, which should run, is "
        "dropped.",
        lint_triggers.rate_before_debounce,
    ),
    Rule(
        MASKS_NOBODY,
        "`trigger_masking`, or another brake, by the person, on a trigger whose events have none",
        "A hash that comes to nothing masks nothing; events whose key comes to nothing count together.",
    ),
    Rule(
        "notify-channel-without-app",
        "a step that posts to a channel that the app is not in",
        "The first real run would fail, and nobody would get its result. Slack is asked where the workflow is saved or "
        "checked by the service; a file that is checked alone is not.",
        lint_messages.app_outside,
    ),
    Rule(
        "repository-not-reached",
        "a task on a repository that no GitHub connection of the project may write to",
        "Its tasks would fail at once. GitHub is asked where the workflow is saved or checked by the service; a file "
        "that is checked alone is not.",
        lint_tasks.out_of_reach,
    ),
    Rule(
        "staged-without-repository",
        "a task that is `staged` and works on no repository",
        "What waits for a person is what a task asks to have written to its repository. Messages and connectors are "
        "not held back.",
        lint_tasks.stages_nothing,
    ),
    Rule(
        "two-messages",
        "a Slack loop whose task answers in the thread, and a step that sends the result again",
        "`reply_in_slack_thread` counts as true where it is left out.",
        lint_messages.two_messages,
    ),
    Rule(
        UNDECLARED,
        "a schedule that gives a variable which the workflow does not declare",
        "It is kept, and read by nothing unless something names it: as a rule it is another one misspelt.",
    ),
    Rule(
        "unknown-property",
        "a filter on a property that events of GitHub or Slack do not have; a template, a mask's hash or a brake's key "
        "that reads one, or reads of `event` what no event has",
        "The filter never matches; with `is_not_set` or another negative operator it holds nothing back. A template "
        "prints nothing there, and a hash masks nothing. Properties of other events are free, and so is what lies "
        "inside `github_event` and `slack_event`.",
        _unknown,
    ),
    Rule(
        "filter-without-person",
        "a filter of type person, group, cohort or element on an event of GitHub or Slack",
        "Those events have none of them.",
        _each(lint_filters.personless_filters),
    ),
    Rule(
        "impossible-value",
        "a value that the property never has: an `action` that the event does not know, a channel by its name, a "
        "repository without its owner",
        "The filter never matches by it.",
        _each(lint_filters.impossible_values),
    ),
    Rule(
        "property-never-set",
        "a filter on a property that such deliveries do not have, as the `title` of a push",
        "The filter never matches.",
        _each(lint_filters.never_set),
    ),
    Rule(
        "contradicting-filters",
        "filters on one property that no value satisfies together",
        "The loop never starts.",
        _each(lint_filters.contradictions),
    ),
)
"""Every rule, in the order in which its findings are told."""

CODES = frozenset(rule.code for rule in RULES)

_HEAD = (
    "# Lint",
    "",
    "<!-- Printed by `python -m loops.definition.lint`; a test compares the two. -->",
    "",
    "What is legal in a workflow and probably not meant. A finding has the place in the document, what was found, what",
    "mends it, and a code that stays. They are told as warnings where a workflow is saved, enabled or checked: by the",
    "API, by `loops apply` and by `loops validate`. `loops lint FILE` tells them alone, and ends with 1 where it finds",
    "one:",
    "",
    "    loops lint loops/*.yaml",
    "    loops lint loops/*.yaml --allow busy-event-unmasked",
    "    loops lint loops/*.yaml --ask",
    "",
    "`--allow` passes over findings of a code. `--ask` has the service look, which knows the connections and asks",
    "Slack about channels and GitHub about repositories; without it nothing but the file is read.",
    "",
    "| code | level | found | why |",
    "|---|---|---|---|",
)


def reference() -> str:
    """docs/reference/lint.md."""
    rows = [f"| `{rule.code}` | {rule.level} | {rule.what} | {rule.why} |" for rule in RULES]
    return "\n".join([*_HEAD, *rows, ""])


if __name__ == "__main__":
    sys.stdout.write(reference())
