"""Leads a sandbox to a model without a key: what comes with the token of a task goes on with the provider's key."""
