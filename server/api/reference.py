"""`python -m server.api.reference` prints docs/reference/api.md, from the table of routes."""

import sys

from loops.connections.kinds import KINDS
from server.api.routes import PREFIX, ROUTES

_HEAD = (
    "# REST API",
    "",
    "<!-- Printed by `python -m server.api.reference`; a test compares the two. -->",
    "",
    "JSON in UTF-8, below `/api/projects/{project}`; the first project is `default`. A request says who it is with",
    "`Authorization: Bearer <token>`; a session cookie of the pages serves too, for changes only from the pages",
    "themselves. A token belongs to one project; another project is answered 404, as one that is not there. What comes",
    "through the socket in the data folder is an admin of the project in the path.",
    "",
    "Roles, each of which may do what those before it may: `viewer` reads, `editor` changes workflows and runs,",
    "`admin` changes connections and tokens.",
    "",
    'An error is `{"error": {"code", "message", "path"?, "hint"?}}`; one about a workflow has `"faults": [{"path",',
    '"message", "hint"}]` beside them. 400 says what does not fit, 401 and 403 who may not, 404 what is not there,',
    "405 which methods a path takes (as the header `Allow` does), 409 that somebody was first, 503 (with",
    "`Retry-After`) that the database does not answer now, or that as much of this kind as may be is under way.",
    "Deliveries are [refused](../guides/connect-github.md#what-a-refusal-says) in the same form, with 400 always",
    "`path` and `hint`.",
    "",
    'A list is `{"items": [...], "next": cursor or null}`; `limit` is 1 to 200, 50 by default, and `cursor` the `next`',
    "of the page before. A parameter or key that is not listed here is refused. Ids are text, also",
    "those that are numbers. Times are ISO 8601 with an offset; costs are US dollars. A cost that is null is",
    "not known: no price is known for a model of it, and `LOOPS_PRICE` sets one.",
    "",
    "| | path | role | takes | what it does |",
    "|---|---|---|---|---|",
)
_CONNECTIONS = (
    "",
    "The settings of a connection, by its kind. A secret is stored encrypted and never shown again.",
    "",
    "| kind | secret | shown |",
    "|---|---|---|",
)


def api_reference() -> str:
    """docs/reference/api.md."""
    rows = [
        f"| {route.method} | `{PREFIX}{route.path}` | {route.role} | {route.takes} | {route.summary} |"
        for route in ROUTES
    ]
    text = "\n".join([*_HEAD, *rows, *_CONNECTIONS, *_kinds(), ""])
    return text.replace(f"`{PREFIX}/projects/{{project}}/", "`…/")


def _kinds() -> list[str]:
    rows = []
    for kind in KINDS.values():
        secret, plain = (
            ", ".join(f"`{one.name}`" for one in kind.settings if one.secret is hidden) for hidden in (True, False)
        )
        rows.append(f"| {kind.name} | {secret} | {plain} |")
    return rows


if __name__ == "__main__":
    sys.stdout.write(api_reference())
