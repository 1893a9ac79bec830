"""The web pages: rendered here, readable without a script, in the look of one stylesheet."""

from aiohttp import web

from server.pages import (
    answers,
    deliveries,
    forecast,
    outbox,
    quotas,
    run,
    runs,
    schedules,
    spaces,
    starts,
    workflow,
    workflows,
)
from server.pages.addresses import HOME
from server.pages.assets import serve_asset
from server.pages.rendering import see_other
from server.pages.sessions import Sessions
from server.pages.visit import Visit, answered, nowhere_page, visited
from server.services import SERVICES

__all__ = ["nowhere_page", "register_pages"]


def register_pages(app: web.Application) -> None:
    """Add every page to the application, which has its services already."""
    sessions = Sessions(app[SERVICES])
    app.router.add_get("/sign-in", answered(sessions.ask))
    app.router.add_post("/sign-in", answered(sessions.sign_in))
    app.router.add_post("/sign-out", answered(sessions.sign_out))
    app.router.add_get("/static/{name}", serve_asset)
    app.router.add_get("/", visited(_home))
    app.router.add_get("/deliveries", visited(deliveries.list_deliveries))
    app.router.add_get("/deliveries/{id}", visited(deliveries.show_delivery))
    app.router.add_get("/runs", visited(runs.list_runs))
    app.router.add_get("/runs/{id}", visited(run.show_run))
    app.router.add_get("/runs/{id}/live", visited(run.follow_run))
    app.router.add_post("/runs/{id}/cancel", visited(runs.cancel_run, "editor"))
    app.router.add_post("/runs/{id}/resume", visited(runs.resume_run, "editor"))
    for what, answers_it in (("settle", answers.settle_output), ("send", answers.send_output)):
        app.router.add_post(f"/runs/{{id}}/outputs/{{task}}/{{number}}/{what}", visited(answers_it, "editor"))
    app.router.add_get("/outbox", visited(outbox.list_messages))
    app.router.add_get("/outbox/{id}", visited(outbox.show_message))
    app.router.add_post("/outbox/{id}/resend", visited(outbox.send_again, "editor"))
    app.router.add_get("/schedules", visited(schedules.list_schedules))
    app.router.add_get("/schedules/{id}", visited(schedules.show_schedule))
    app.router.add_post("/schedules/{id}/pause", visited(schedules.pause_schedule, "editor"))
    app.router.add_post("/schedules/{id}/resume", visited(schedules.resume_schedule, "editor"))
    app.router.add_get("/quotas", visited(quotas.show_quotas))
    app.router.add_get("/spaces", visited(spaces.list_spaces))
    app.router.add_get("/spaces/{id}", visited(spaces.show_space))
    app.router.add_get("/workflows", visited(workflows.list_workflows))
    app.router.add_get("/workflows/{id}", visited(workflow.show_workflow))
    app.router.add_get("/workflows/{id}/forecast", visited(forecast.ask_forecast))
    app.router.add_post("/workflows/{id}/forecast", visited(forecast.show_forecast))
    app.router.add_post("/workflows/{id}/run", visited(starts.run_workflow, "editor"))
    app.router.add_post("/deliveries/{id}/replay", visited(starts.replay_delivery, "editor"))
    app.router.add_post("/workflows/{id}/enable", visited(workflows.enable_workflow, "editor"))
    app.router.add_post("/workflows/{id}/disable", visited(workflows.disable_workflow, "editor"))


async def _home(_visit: Visit) -> web.Response:
    return see_other(HOME)
