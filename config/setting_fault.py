"""What is wrong with a setting."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SettingFault:
    """One thing that is wrong with a setting, named as the operator wrote it, and what mends it."""

    setting: str
    message: str
    hint: str = ""
