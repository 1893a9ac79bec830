"""What agents reach Loops by: tools over the Model Context Protocol, at `/mcp` and over `loops mcp`.

A tool is a path of the REST API under another name: the same handlers answer, with the same checks and roles. Only
`protocol`, `serving` and `stdio` load the protocol's library, which costs a second and 25 MB, and only once somebody
asks.
"""
