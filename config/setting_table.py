"""Every setting, one row each: the one place where a setting's name, default, range and meaning stand."""

from dataclasses import dataclass

from config.secret_key import FILE_NAME
from config.setting_values import (
    Parser,
    base_address,
    commands,
    database_url,
    file_patterns,
    folder,
    host,
    hosts,
    model,
    money,
    one_of,
    price,
    secret,
    secret_keys,
    user,
    web_address,
    whole_number,
)

PREFIX = "LOOPS_"
LARGEST_BODY = 25 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Setting:
    """One row: its parser, its default as text (None where there is none or it is derived) and what it means."""

    name: str
    parse: Parser
    default: str | None
    meaning: str
    default_shown: str = ""

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


SETTINGS = (
    Setting("data_dir", folder, ".loops", "Folder of the database, the key file, `service.json` and the socket."),
    Setting(
        "database_url",
        database_url,
        None,
        "A SQLite file (`sqlite:///loops.db`) or Postgres (`postgresql://user:password@host/database`).",
        "`loops.db` in the data folder",
    ),
    Setting("host", host, "127.0.0.1", "Address to listen on."),
    Setting("port", whole_number(0, 65535), "8765", "Port to listen on, 0 to 65535; 0 takes any free one."),
    Setting(
        "public_url",
        web_address,
        None,
        "Address under which people and senders reach the service: http or https, host and port only.",
        "derived from host and port",
    ),
    Setting(
        "secret_key",
        secret_keys,
        None,
        "Key that encrypts stored secrets and signs sessions, at least 32 characters. Several, separated by commas, "
        "rotate it: the first encrypts, all decrypt. Must be set with Postgres.",
        f"made on first start, kept in `{FILE_NAME}` in the data folder",
    ),
    Setting(
        "work_dir",
        folder,
        None,
        "Folder for checkouts that tasks work in; outside the data folder.",
        "beside the data folder, with `-work` added to its name",
    ),
    Setting("tasks", whole_number(1, 256), "4", "AI tasks that run at once, 1 to 256."),
    Setting("runs", whole_number(1, 256), "8", "Segments of runs that are worked on at once, 1 to 256."),
    Setting(
        "workflow_daily_tasks",
        whole_number(0, 1_000_000),
        "100",
        "AI tasks that one workflow may create in 24 hours, 0 to 1000000.",
    ),
    Setting(
        "project_daily_tasks",
        whole_number(0, 1_000_000),
        "500",
        "AI tasks that one project may create in 24 hours, 0 to 1000000.",
    ),
    Setting(
        "workflow_daily_tokens",
        whole_number(0, 1_000_000_000_000),
        None,
        "Tokens that the tasks of one workflow may use in 24 hours, 0 to 1000000000000.",
        "no limit",
    ),
    Setting(
        "project_daily_tokens",
        whole_number(0, 1_000_000_000_000),
        None,
        "Tokens that the tasks of one project may use in 24 hours, 0 to 1000000000000.",
        "no limit",
    ),
    Setting(
        "workflow_daily_cost",
        money,
        None,
        "US dollars that the tasks of one workflow may cost in 24 hours. As with LOOPS_TASK_COST, a model without a "
        "known price then needs LOOPS_PRICE or a limit in tokens.",
        "no limit",
    ),
    Setting(
        "project_daily_cost",
        money,
        None,
        "US dollars that the tasks of one project may cost in 24 hours; else as LOOPS_WORKFLOW_DAILY_COST.",
        "no limit",
    ),
    Setting(
        "mcp_commands",
        commands,
        "",
        "MCP servers that are started as commands: `name=command with its arguments`, separated by commas (a list in "
        "TOML). A connection of kind mcp names one; they run as the service's user, outside of the sandbox.",
        "none",
    ),
    Setting(
        "subject_hourly_runs",
        whole_number(0, 1_000_000),
        "10",
        "Events of one issue, pull request, branch or thread that may start runs within an hour, 0 to 1000000; 0 is "
        "any number.",
    ),
    Setting("model", model, None, "Model of AI tasks, `provider:name`. Without one a task fails at once.", "none"),
    Setting("model_api_key", secret, None, "API key of the model's provider.", "none"),
    Setting("model_base_url", base_address, None, "Address of the model's API.", "the provider's own"),
    Setting("task_rounds", whole_number(1, 100), "40", "Rounds that a task's agent may take, 1 to 100."),
    Setting("task_seconds", whole_number(10, 86_400), "300", "Seconds that a task's agent may work, 10 to 86400."),
    Setting(
        "thread_seconds",
        whole_number(0, 86_400),
        "600",
        "Seconds that a task which answers in a Slack thread listens there after each answer, 0 to 86400.",
    ),
    Setting(
        "task_tokens", whole_number(1_000, 1_000_000_000), None, "Tokens that a task may use, 1000 or more.", "no limit"
    ),
    Setting(
        "task_cost",
        money,
        None,
        "US dollars that a task may cost. A model without a known price then needs LOOPS_PRICE or a limit in tokens.",
        "no limit",
    ),
    Setting(
        "price",
        price,
        None,
        "What the model costs in US dollars a million tokens, `input/output`, as `3/15`.",
        "the known price of the model",
    ),
    Setting("task_comments", whole_number(0, 20), "1", "Comments that a repository task may have written, 0 to 20."),
    Setting("task_issues", whole_number(0, 20), "1", "Issues that a repository task may have opened, 0 to 20."),
    Setting(
        "protected_files",
        file_patterns,
        "",
        "Files that no task may change beside those that none ever may: patterns of names, separated by commas (a list "
        "in TOML), with a slash in front at the root alone, as `package.json`, `*.lock`, `/deploy/*`.",
        "none",
    ),
    Setting(
        "staged",
        one_of("no", "yes"),
        "no",
        "`yes`: what tasks ask to have written to repositories is checked and shown, and not written, whatever their "
        "loops say (`staged` in the step) and whoever would have it sent.",
    ),
    Setting(
        "whole_clone_mb",
        whole_number(0, 1_000_000),
        "200",
        "Megabytes up to which a repository is fetched with its history, 0 to 1000000; of larger ones tasks see the "
        "newest commit alone.",
    ),
    Setting(
        "mcp",
        one_of("full", "read_only", "off"),
        "full",
        "What agents may do over MCP: `full` (what their token's role allows), `read_only`, or `off`.",
    ),
    Setting(
        "sandbox",
        one_of("bwrap", "none"),
        "bwrap",
        "What commands of tasks run in: `bwrap` or `none`. Without a sandbox they can do all that the service can.",
    ),
    Setting(
        "sandbox_user",
        user,
        None,
        "Who runs commands of tasks where the service is root: a name, or numbers as `990:990`; never root.",
        "58731, which is nobody; where the service is not root, its own user",
    ),
    Setting(
        "allowed_hosts",
        hosts,
        "",
        "Private hosts that workflows, agents and pages may reach all the same: names, addresses or networks, "
        "separated by commas (a list in TOML).",
        "none",
    ),
    Setting(
        "keep_days",
        whole_number(1, 3650),
        "30",
        "Days that deliveries, events, verdicts and traces are kept, 1 to 3650.",
    ),
    Setting("log_level", one_of("debug", "info", "warning", "error"), "info", "`debug`, `info`, `warning` or `error`."),
    Setting(
        "log_format",
        one_of("json", "text"),
        None,
        "`json` (one object a line) or `text`.",
        "`text` on a terminal, `json` otherwise",
    ),
    Setting(
        "drain_seconds",
        whole_number(0, 600),
        "20",
        "Seconds that a stopping service gives to what it is working on, 0 to 600.",
    ),
    Setting(
        "max_body_bytes_in_flight",
        whole_number(LARGEST_BODY, 2**36),
        str(256 * 1024 * 1024),
        f"Bytes of request bodies in memory at once, {LARGEST_BODY} (the largest single body) to {2**36}; "
        "above it deliveries are answered 503.",
    ),
)
