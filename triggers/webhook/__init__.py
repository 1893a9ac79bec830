"""Any webhook: a request to a workflow's own address."""

from triggers.webhook.receive import WebhookSource

__all__ = ["WebhookSource"]
