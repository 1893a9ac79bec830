"""/quotas: how many tasks the project may still create today, and what they may still spend."""

from aiohttp import web

from server.pages.money import money
from server.pages.visit import Visit
from server.quotas import QuotaUse, SpendingUse, limits_of, project_use


async def show_quotas(visit: Visit) -> web.Response:
    """GET /quotas"""
    project, now = visit.who.project_id, visit.services.clock.now()
    limits = limits_of(visit.services.settings)
    use = await visit.services.reader.read(lambda connection: project_use(connection, project, limits, now))
    return visit.show("quotas.html", use=use, tasks_words=tasks_words, token_words=token_words, cost_words=cost_words)


def tasks_words(quota: QuotaUse) -> str:
    """`12 of 100`"""
    return f"{quota.used:,} of {quota.limit:,}"


def token_words(use: SpendingUse) -> str:
    """`52,000 of 1,000,000`; without a limit the first number alone."""
    of = "" if use.allowance.tokens is None else f" of {use.allowance.tokens:,}"
    return f"{use.spent.tokens:,}{of}"


def cost_words(use: SpendingUse) -> str:
    """`$0.0312 of $5`, and that more was spent where some of it has no known price."""
    of = "" if use.allowance.cost is None else f" of {money(use.allowance.cost)}"
    return f"{money(use.spent.cost)}{' + unknown' if use.spent.unpriced else ''}{of}"
