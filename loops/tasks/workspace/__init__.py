"""Where a task works on code: a checkout without any token, and a sandbox around whatever is executed in it."""
