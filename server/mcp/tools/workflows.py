"""Tools that make, change and start workflows."""

from collections.abc import Mapping

from server.mcp.instructions import CREATE, TEST_RUN
from server.mcp.schemas import PAGE, Schema, choice, freely, identity, objects, open_object, switch, takes, text, whole
from server.mcp.tool import ADDS, ENDS, OVERWRITES, READS, SETS, STARTS, Tool, route

WORKFLOW = identity("The workflow's id, from workflows-list.")

_STATUSES = ("draft", "active", "archived")
_EXIT_CONDITIONS = (
    "exit_only_at_end",
    "exit_on_conversion",
    "exit_on_trigger_not_matched",
    "exit_on_trigger_not_matched_or_conversion",
)
_VARIABLES = objects('As {"key", "type": string, number or boolean, "default": text}.')
_MASKING: Schema = {
    "type": ["object", "null"],
    "description": 'Holds back repeats: {"hash": "{person.id}", "ttl": seconds, "threshold": null}.',
}
_KEY: Schema = {
    "type": ["string", "null"],
    "description": "Counts each value by itself, as {event.properties.repository}.",
}
_SPAN: Schema = {"type": "integer", "minimum": 1, "description": "Seconds."}
_BRAKES: Mapping[str, Schema] = {
    "trigger_masking": _MASKING,
    "trigger_rate_limit": {
        "type": ["object", "null"],
        "description": "Lets count events pass within any period, and drops the others.",
        "properties": {"count": {"type": "integer", "minimum": 1}, "period": _SPAN, "key": _KEY},
        "required": ["count", "period"],
    },
    "trigger_debounce": {
        "type": ["object", "null"],
        "description": "Holds events until none came for quiet seconds, longest at most; the last one runs.",
        "properties": {"quiet": _SPAN, "longest": _SPAN, "key": _KEY},
        "required": ["quiet", "longest"],
    },
    "trigger_overlap": {
        "type": ["object", "null"],
        "description": "What becomes of an event while a run is under way. queue and parallel need a maximum.",
        "properties": {
            "policy": {"type": "string", "enum": ["skip", "queue", "restart", "parallel"]},
            "maximum": {"type": "integer", "minimum": 1},
            "key": _KEY,
        },
        "required": ["policy"],
    },
}
_BASE: Mapping[str, Schema] = {
    "base_version": whole("Its version as you read it: a conflict where it is another by now.", 1, 999_999_999),
    "base_updated_at": text("Its updated_at as you read it, likewise."),
}
_RUNNING = choice("What becomes of runs under way: drain lets them end, cancel cancels them.", "drain", "cancel")

TOOLS = (
    Tool(
        "workflows-list",
        READS,
        route("GET", "/workflows"),
        "List workflows, the newest first, without their actions and edges. Archived ones only with that status.",
        takes(
            search=text("Words of the name or description.", 300),
            status=choice("Only those of this status.", *_STATUSES),
            origin_product=choice("loops: only loops.", "loops", "broadcasts"),
            **PAGE,
        ),
    ),
    Tool(
        "workflows-get",
        READS,
        route("GET", "/workflows/{id}"),
        "Read one workflow with its actions, edges, variables and version.",
        takes("id", id=WORKFLOW),
    ),
    Tool(
        "workflows-create",
        ADDS,
        route("POST", "/workflows"),
        CREATE,
        freely(
            takes(
                "name",
                "actions",
                name=text("A short name, unlike those of other workflows.", 400),
                description={"type": "string", "description": "What it is for."},
                status=choice("Always draft; workflows-enable makes it active, after the person agreed.", "draft"),
                origin_product=choice("loops for a loop; leave it out for other workflows.", "loops", "broadcasts"),
                exit_condition=choice("When a run leaves early.", *_EXIT_CONDITIONS),
                variables=_VARIABLES,
                **_BRAKES,
                actions=objects("The steps; exactly one has the type trigger."),
                edges=objects('The ways between them: {"from", "to", "type": "continue"}, or "branch" with an index.'),
            )
        ),
    ),
    Tool(
        "workflows-validate",
        READS,
        route("POST", "/workflows/validate"),
        "Hold a workflow against every check without storing it: all faults and warnings, with path and mend.",
        takes("document", document=open_object("The workflow, as workflows-create takes it.")),
    ),
    Tool(
        "workflows-test-run",
        READS,
        route("POST", "/workflows/{id}/test-run"),
        TEST_RUN,
        takes(
            "id",
            id=WORKFLOW,
            globals=open_object(
                'What would have happened: {"event": {"event": name, "properties": {…}}, "person": {…}, "groups": {…}}.'
            ),
            delivery=identity("In place of globals: a delivery that came, ours or the sender's id of it."),
            current_action_id=identity("The action to test: the nextActionId of the call before. The trigger without."),
            mock_async_functions=switch("Nothing outside is ever called; false is refused.", usual=True),
            use_draft=switch("A workflow here has one definition, which is tested either way.", usual=False),
        ),
        outside=True,
    ),
    Tool(
        "workflows-forecast",
        READS,
        route("POST", "/workflows/forecast"),
        "Hold a workflow, a draft or one that is not stored too, against what was received in the last days as if it "
        "had been enabled: how many runs it would have started, what its filters and brakes would have stopped, about "
        "what it would have cost, and which quota it would have reached. Starts nothing. Takes up to 45 seconds.",
        takes(
            id=identity("The id of a stored workflow, from workflows-list. Either this or document."),
            document=open_object("In place of id: a workflow, as workflows-create takes it, with schedules beside it."),
            days=whole("How many days; 7 without.", 1, 90),
        ),
        outside=True,
    ),
    Tool(
        "workflows-update",
        OVERWRITES,
        route("PATCH", "/workflows/{id}"),
        "Set keys of a workflow that are no part of its graph; those that are not named stay. An active workflow has "
        "them at once.",
        takes(
            "id",
            id=WORKFLOW,
            name=text("Its name.", 400),
            description={"type": "string", "description": "What it is for."},
            exit_condition=choice("When a run leaves early.", *_EXIT_CONDITIONS),
            variables=_VARIABLES,
            **_BRAKES,
            **_BASE,
        ),
        parameters=frozenset(_BASE),
    ),
    Tool(
        "workflows-patch-graph",
        OVERWRITES,
        route("PATCH", "/workflows/{id}/graph"),
        'Change actions and edges by operations, all or none. Each is one of: {"op":"update_action","id","patch"} '
        '(merged into the action; null removes a key), {"op":"add_action","action","edges"?}, {"op":"remove_action",'
        '"id"} (what led to it leads on), {"op":"add_edge","edge"}, {"op":"remove_edge","edge"}, '
        '{"op":"replace_action_edges","id","edges"}. An active workflow has them at once; runs under way keep theirs.',
        takes("id", "operations", id=WORKFLOW, operations=objects("What is done, in this order."), **_BASE),
    ),
    Tool(
        "workflows-enable",
        SETS,
        route("POST", "/workflows/{id}/enable"),
        "Make a draft active: from now on it starts runs, which cost money and send messages. Only after the person "
        "confirmed it. Everything is checked once more.",
        takes("id", id=WORKFLOW),
    ),
    Tool(
        "workflows-disable",
        ENDS,
        route("POST", "/workflows/{id}/disable"),
        "Make an active workflow a draft again: it starts no more runs. Where some are under way, running has to say "
        "what becomes of them.",
        takes("id", id=WORKFLOW, running=_RUNNING),
    ),
    Tool(
        "workflows-archive",
        ENDS,
        route("DELETE", "/workflows/{id}"),
        "Disable a workflow for good and take it off the list; there is no way back. Ask the person before.",
        takes("id", id=WORKFLOW, running=_RUNNING),
        parameters=frozenset({"running"}),
    ),
    Tool(
        "workflows-run",
        STARTS,
        route("POST", "/workflows/{id}/run"),
        "Start a run now, of an active workflow whose trigger is manual or schedule. It does its real work: it costs "
        "money and sends messages.",
        takes(
            "id",
            id=WORKFLOW,
            variables=open_object('Values in place of the defaults of its variables, as {"customer": "acme"}.'),
            idempotency_key=text("Chosen by you: used again within 24 hours it starts nothing more.", 200),
        ),
        headers={"idempotency_key": "Idempotency-Key"},
    ),
    Tool(
        "workflows-replay-missed",
        STARTS,
        route("POST", "/workflows/{id}/replay"),
        "Play again what a workflow missed in a period: stored deliveries that would start it now, started no run of "
        "it and were not held back. Goes in parts: call again with `next` as cursor until it is null.",
        takes(
            "id",
            "since",
            id=WORKFLOW,
            since=text("Where the period begins, as 2026-11-30T09:00:00Z."),
            until=text("Where it ends, likewise; now without it."),
            cursor=text("`next` of the part before."),
        ),
        outside=True,
    ),
    Tool(
        "workflows-webhook-retrieve",
        READS,
        route("GET", "/workflows/{id}/webhook"),
        "The address of a workflow whose trigger is a webhook. Whoever knows it can send to it: show it only to the "
        "person.",
        takes("id", id=WORKFLOW),
    ),
)
