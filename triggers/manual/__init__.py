"""By hand: a button, an API call or a command starts a run of one workflow."""

from triggers.manual.receive import ByHand

__all__ = ["ByHand"]
