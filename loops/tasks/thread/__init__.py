"""The Slack thread that a task answers in: whose it is, what people say there, and what the task shows there."""
