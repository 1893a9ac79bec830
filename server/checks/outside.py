"""What lint cannot see in a workflow: asked where one is saved, enabled or checked."""

import asyncio

from loops.connections.slack_answer import CHANNEL_WORDS
from loops.connections.slack_channels import Obstacle, SlackWorkspaces
from loops.definition import Workflow
from loops.definition.lint import Outside, channels_of
from loops.definition.lint_subject import NOTHING_KNOWN
from loops.errors import Conflict, NotFound

SECONDS = 5.0
"""For how long whoever saves a workflow waits for Slack, at most."""
MOST_CHANNELS = 20


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
        return await workspace.obstacle(channel, by_name=True)
