"""What a process of the service is made of, put together by server/app.py and handed to the handlers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from config.settings import Settings
from loops.connections.book import ConnectionBook
from loops.connections.github_repositories import GitHubRepositories
from loops.connections.secrets import SecretBox
from loops.connections.slack_channels import SlackWorkspaces
from loops.ports import Clock, Engine, Messages, Reader, Writer
from loops.runs.control import RunControl
from loops.scheduling import Schedules
from loops.tasks.workspace.sandboxes import Found
from loops.webhooks import Webhooks
from loops.workflows import Workflows
from server.metrics import Metrics
from triggers.audience import Audience
from triggers.definitions import Definitions
from triggers.forecasting import Forecasts
from triggers.intake import Intake
from triggers.manual.receive import ByHand
from triggers.replay import Replays
from triggers.source import Source
from triggers.testing import WorkflowTester


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a request handler may need.

    `sandbox` is what commands of tasks run in, None where this process works on none. `public_url` gives the address
    under which people and senders reach the service, with the port that it really got.
    """

    settings: Settings
    reader: Reader
    writer: Writer
    engine: Engine
    clock: Clock
    box: SecretBox
    book: ConnectionBook
    repositories: GitHubRepositories
    slack: SlackWorkspaces
    intake: Intake
    sources: Mapping[str, Source]
    definitions: Definitions
    audience: Audience
    workflows: Workflows
    schedules: Schedules
    webhooks: Webhooks
    by_hand: ByHand
    replays: Replays
    forecasts: Forecasts
    tester: WorkflowTester
    runs: RunControl
    messages: Messages
    metrics: Metrics
    sandbox: Found | None
    public_url: Callable[[], str]


SERVICES: "web.AppKey[Services]" = web.AppKey("services", Services)
