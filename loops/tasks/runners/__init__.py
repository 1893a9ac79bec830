"""Who works on a task: the agent of this package, or a coding agent that is started as a command."""
