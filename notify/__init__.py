"""A result comes back: messages are stored, then sent to Slack or by email, once."""
