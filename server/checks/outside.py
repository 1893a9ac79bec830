"""What lint cannot see in a workflow: asked where one is saved, enabled or checked."""

import asyncio

from loops.connections.github_reach import RepositoryReach
from loops.connections.slack_answer import CHANNEL_WORDS
from loops.connections.slack_channels import Obstacle, SlackWorkspaces
from loops.definition import Workflow
from loops.definition.lint import Outside, channels_of, repositories_of
from loops.definition.lint_subject import NOTHING_KNOWN
from loops.errors import Conflict, NotFound, RepositoryError, StoreBusy, Unreached

SECONDS = 5.0
"""For how long whoever saves a workflow waits for Slack, at most."""
MOST_CHANNELS = 20
MOST_REPOSITORIES = 5


class OutsideLook:
    """Asks others about what a workflow names of theirs: Slack about channels, GitHub about repositories."""

    def __init__(self, channels: "ChannelLook", repositories: "RepositoryLook") -> None:
        self._channels = channels
        self._repositories = repositories

    async def __call__(self, project_id: str, workflow: Workflow) -> Outside:
        """What is known of a project's workflow."""
        slack, github = await asyncio.gather(
            self._channels(project_id, workflow), self._repositories(project_id, workflow)
        )
        return Outside(slack.channels, github.repositories)


class RepositoryLook:
    """Asks GitHub whether a connection may write to the repositories that a workflow's tasks work on."""

    def __init__(self, reach: RepositoryReach) -> None:
        self._reach = reach

    async def __call__(self, project_id: str, workflow: Workflow) -> Outside:
        """What is known of a project's workflow."""
        known = {}
        for name in sorted(repositories_of(workflow))[:MOST_REPOSITORIES]:
            try:
                async with asyncio.timeout(SECONDS):
                    await self._reach.find(project_id, name)
            except RepositoryError as error:
                known[name.lower()] = error.message, error.hint
            except (TimeoutError, Unreached, StoreBusy):  # nothing is known then
                continue
        return Outside(repositories=known)


class ChannelLook:
    """Asks Slack about the channels that a workflow's steps post to. What is not answered in time is not known."""

    def __init__(self, workspaces: SlackWorkspaces) -> None:
        self._workspaces = workspaces

    async def __call__(self, project_id: str, workflow: Workflow) -> Outside:
        """What is known of a project's workflow."""
        wanted = sorted(channels_of(workflow))[:MOST_CHANNELS]
        if not wanted:
            return NOTHING_KNOWN
        asked = [asyncio.ensure_future(self._obstacle(project_id, *one)) for one in wanted]
        answered, late = await asyncio.wait(asked, timeout=SECONDS)
        for one in late:
            one.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        known = {}
        for place, one in zip(wanted, asked, strict=True):
            found = one.result() if one in answered else None
            if found is not None:
                reason, mend = CHANNEL_WORDS[found.code]
                known[place] = (
                    reason.format(channel=found.channel, app=found.app),
                    mend.format(channel=found.channel, app=found.app),
                )
        return Outside(known)

    async def _obstacle(self, project_id: str, connection: int, channel: str) -> Obstacle | None:
        try:
            workspace = await self._workspaces.of(project_id, connection)
        except (NotFound, Conflict):  # said by another check
            return None
        return await workspace.likely_obstacle(channel)
