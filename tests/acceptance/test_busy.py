"""Deliveries are answered in time whatever the workers do."""

from pathlib import Path

from tests.acceptance.busy import busy
from tests.doubles.slack_socket import slack_sockets

# After which Slack sends again.
_PATIENCE = 3.0


async def test_slack_is_answered_in_time_while_200_deliveries_a_second_arrive_and_every_worker_is_busy(tmp_path: Path):
    async with slack_sockets() as slack, busy(tmp_path, f"sqlite:///{tmp_path / 'loops.db'}", slack) as service:
        answered = await service.offered(rate=200, seconds=3)
        assert await service.still_full()
        for found in answered.values():
            assert found.statuses <= {200, 202}
            assert max(found.seconds) < _PATIENCE
        sent = sum(len(found.seconds) for found in answered.values())
        assert await service.queued() == sent
