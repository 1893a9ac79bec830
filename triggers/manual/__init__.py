"""By hand: a button, an API call or a command starts a run of one workflow."""
