"""Tools that make, change and start workflows."""

from server.mcp.schemas import PAGE, choice, freely, identity, objects, open_object, takes, text
from server.mcp.tool import ADDS, ENDS, READS, SETS, STARTS, Tool, route

WORKFLOW = identity("The workflow's id, from workflows-list.")

_STATUSES = ("draft", "active", "archived")
_EXIT_CONDITIONS = (
    "exit_only_at_end",
    "exit_on_conversion",
    "exit_on_trigger_not_matched",
    "exit_on_trigger_not_matched_or_conversion",
)
_CREATE = """\
Store a new workflow as a draft, which starts nothing. A loop has origin_product "loops" and these actions: \
{"id":"trigger","name":"Trigger","type":"trigger","config":{…}}, \
{"id":"create_task","name":"Create AI task","type":"function","config":{"template_id":"template-posthog-create-task",\
"inputs":{"prompt":{"value":"…"},"non_failure_status_codes":{"value":[409]}}},\
"output_variable":[{"key":"task_final_message","result_path":"final_message"}]}, \
perhaps {"id":"notify","name":"Notify","type":"function","config":{"template_id":"template-slack","inputs":{…}}}, \
{"id":"exit","name":"Exit","type":"exit","config":{"reason":"Task finished"}}; \
edges {"from":"trigger","to":"create_task","type":"continue"} and so on; \
variables [{"key":"task_final_message","type":"string","default":""}]. \
Trigger configs: {"type":"schedule"}; {"type":"manual"}; for GitHub or Slack {"type":"internal-event","filters":\
{"source":"internal-events","events":[{"id":"$github_event_received","type":"events"}],"properties":[{"key":"repository",\
"value":["owner/name"],"operator":"exact","type":"event"},…]}}. Keep actor_access ["write"] for GitHub, bot_id and \
thread_ts is_not_set for Slack. The prompt is a whole brief for an agent that nobody watches; it takes no text of the \
event (the task gets the event beside it, as data). Answers the workflow with `warnings`; an error lists every fault \
with its path."""

TOOLS = (
    Tool(
        "workflows-list",
        READS,
        route("GET", "/workflows"),
        "List workflows, the newest first, without their actions and edges. Archived ones only with that status.",
        takes(
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
        _CREATE,
        freely(
            takes(
                "name",
                "actions",
                name=text("A short name, unlike those of other workflows.", 400),
                description={"type": "string", "description": "What it is for."},
                status=choice("Always draft; workflows-enable makes it active, after the person agreed.", "draft"),
                origin_product=choice("loops for a loop; leave it out for other workflows.", "loops", "broadcasts"),
                exit_condition=choice("When a run leaves early.", *_EXIT_CONDITIONS),
                variables=objects('As {"key", "type": string, number or boolean, "default": text}.'),
                trigger_masking={
                    "type": ["object", "null"],
                    "description": 'Holds back repeats: {"hash": "{person.id}", "ttl": seconds, "threshold": null}.',
                },
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
        "Make an active workflow a draft again: it starts no more runs. Runs under way go on to their end.",
        takes("id", id=WORKFLOW),
    ),
    Tool(
        "workflows-archive",
        ENDS,
        route("DELETE", "/workflows/{id}"),
        "Disable a workflow for good and take it off the list; there is no way back. Ask the person before.",
        takes("id", id=WORKFLOW),
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
        "Play again what a workflow missed in a period: stored deliveries that would start it now and started no run "
        "of it. Goes in parts: call again with `next` as cursor until it is null.",
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
        SETS,
        route("GET", "/workflows/{id}/webhook"),
        "The address of a workflow whose trigger is a webhook. Whoever knows it can send to it: show it only to the "
        "person.",
        takes("id", id=WORKFLOW),
    ),
)
