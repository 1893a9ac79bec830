"""The whole error tree.

LoopsError                   code, http_status, retryable; the message says what is wrong, hint what mends it
├─ ConfigError               at start; carries every fault
├─ DefinitionError           a workflow that cannot be saved; carries every fault with its path
│  ├─ ShapeError             the JSON or YAML itself: types, unknown keys, ranges
│  ├─ FilterError            a property filter that cannot be evaluated
│  ├─ ScheduleError          a schedule whose rule, start or time zone cannot be used
│  └─ TemplateError          a Hog or Liquid template that cannot be compiled or rendered
├─ DeliveryError             an arrival that is not taken
│  ├─ SignatureInvalid 401   ├─ PayloadMalformed 400   └─ PayloadTooLarge 413
│  └─ MethodNotTaken 405
├─ RequestError 400          an API call whose arguments do not fit
├─ Busy 503                  too much of one kind is asked for at once; ask again
├─ ArgumentsRefused 400      a tool call whose arguments do not fit; carries every fault with its path
├─ AccessError               ├─ NotAuthenticated 401   ├─ NotAllowed 403   └─ Misdirected 421
├─ RunError                  inside a run
│  ├─ StepFailed             ├─ StepUnavailable: the step needs a part that is not set up
│  └─ RunFenced: another worker has taken this run over
├─ SandboxError              no sandbox on this machine, or a command that could not be started in it
├─ RepositoryError 409       a repository that cannot be worked on, or a change to it that is not taken
│  └─ PatchRefused           the change breaks a rule; carries every violation
├─ ExternalError 502         a foreign service refused or failed; service, status, retry_after
│  └─ Unreached              it gave no answer; sent: whether it may have got the call
└─ StoreError                ├─ NotFound 404   ├─ Conflict 409   └─ StoreBusy 503
   └─ RowHeld: another transaction has the row, which is not waited for
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: where (`path`, dotted with [index]), what, and what mends it. `code` is stable, for what
    lint knows by one."""

    path: str
    message: str
    hint: str = ""
    code: str = ""

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        return f"{place}{self.message}" + (f" ({self.hint})" if self.hint else "")


class LoopsError(Exception):
    """Base of every error that Loops raises on purpose."""

    code: ClassVar[str] = "loops.error"
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "", path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.path = path


class _Faulty(LoopsError):
    """An error that carries all faults found in one pass, never only the first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        first = self.faults[0]
        super().__init__("\n".join(str(fault) for fault in self.faults), hint=first.hint, path=first.path)


class ConfigError(_Faulty):
    """Settings that cannot be used; every fault names its setting."""

    code = "config.invalid"


class DefinitionError(_Faulty):
    """A workflow that cannot be saved; every fault names its path."""

    code = "definition.invalid"
    http_status = 400

    @classmethod
    def at(cls, path: str, message: str, hint: str = "") -> Self:
        return cls([Fault(path, message, hint)])


class ShapeError(DefinitionError):
    """JSON or YAML whose types, keys or ranges do not fit."""

    code = "definition.shape"


class FilterError(DefinitionError):
    """A property filter that could never be evaluated."""

    code = "definition.filter"


class ScheduleError(DefinitionError):
    """A schedule whose rule, start or time zone cannot be used."""

    code = "definition.schedule"


class TemplateError(DefinitionError):
    """A template that cannot be compiled, or that cannot be rendered with these values."""

    code = "definition.template"


class DeliveryError(LoopsError):
    """An arrival that is not taken."""

    code = "delivery.refused"
    http_status = 400


class SignatureInvalid(DeliveryError):
    """The sender could not be verified."""

    code = "delivery.signature"
    http_status = 401


class PayloadMalformed(DeliveryError):
    """Headers or body are not what the source sends.

    `path` names the field (`batch[3].distinct_id`), the header, or `body` for all of it: whoever reads the refusal has
    nothing else to look by.
    """

    code = "delivery.malformed"

    def __init__(self, message: str, *, path: str, hint: str) -> None:
        super().__init__(message, hint=hint, path=path)


class PayloadTooLarge(DeliveryError):
    """The body is over the source's limit."""

    code = "delivery.too_large"
    http_status = 413


class MethodNotTaken(DeliveryError):
    """A request to a webhook with another method than its workflow takes, which is `allowed`."""

    code = "delivery.method"
    http_status = 405

    def __init__(self, method: str, allowed: str) -> None:
        super().__init__(f"the webhook takes {allowed}, not {method[:20]}", hint="set `method` in the trigger's inputs")
        self.allowed = allowed


class RequestError(LoopsError):
    """An API call whose arguments do not fit."""

    code = "request.invalid"
    http_status = 400


class Busy(LoopsError):
    """As much of this kind as may be is under way; the same may be asked for again."""

    code = "request.busy"
    http_status = 503
    retryable = True


class ArgumentsRefused(_Faulty):
    """A tool call whose arguments do not fit the tool; every fault names its argument."""

    code = "arguments.invalid"
    http_status = 400


class AccessError(LoopsError):
    """Who asks may not have what is asked for."""

    code = "access.refused"
    http_status = 403


class NotAuthenticated(AccessError):
    """No valid token or session came with the request."""

    code = "access.unauthenticated"
    http_status = 401


class NotAllowed(AccessError):
    """The token's role does not allow this."""

    code = "access.forbidden"


class Misdirected(AccessError):
    """The request was sent under a name that is not this service's."""

    code = "access.misdirected"
    http_status = 421


class RunError(LoopsError):
    """Something went wrong inside a run."""

    code = "run.error"


class StepFailed(RunError):
    """A step ended in an error of its own."""

    code = "step.failed"


class StepUnavailable(StepFailed):
    """A step needs a part of the service that is not there or not set up."""

    code = "step.unavailable"


class RunFenced(RunError):
    """Another worker has taken this run over; whoever sees this must stop without writing."""

    code = "run.fenced"


class SandboxError(LoopsError):
    """This machine has no sandbox for commands, or one could not be started."""

    code = "sandbox.unavailable"


class RepositoryError(LoopsError):
    """A repository that cannot be worked on: no connection reaches it, it cannot be fetched, or git refuses."""

    code = "repository.refused"
    http_status = 409


class PatchRefused(RepositoryError):
    """A change to a repository that is not taken; every violation names its file in `path` and its rule in `code`."""

    code = "repository.patch"

    def __init__(self, violations: Sequence[Fault]) -> None:
        self.violations = tuple(violations)
        more = f" (and {len(self.violations) - 1} more)" if len(self.violations) > 1 else ""
        first = self.violations[0]
        super().__init__(f"{first.code}: {first.path}: {first.message}{more}", hint=first.hint, path=first.path)


class BranchMoved(RepositoryError):
    """A branch that is not what a change was made on any more: others pushed to it, removed it or ended its work."""

    code = "repository.moved"


class ExternalError(LoopsError):
    """A foreign service refused or failed."""

    code = "external.error"
    http_status = 502

    def __init__(
        self,
        service: str,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(f"{service}: {message}", hint=hint)
        self.service = service
        self.status = status
        self.retry_after = retry_after


class Unreached(ExternalError):
    """A foreign service gave no answer. `reason` says why, `sent` whether it may have got the call all the same."""

    code = "external.unreached"

    def __init__(self, service: str, call: str, reason: str, *, sent: bool) -> None:
        super().__init__(service, f"cannot be reached for {call}: {reason}", hint="check the network")
        self.reason = reason
        self.sent = sent


class StoreError(LoopsError):
    """The database could not do what was asked."""

    code = "store.error"


class NotFound(StoreError):
    """No such thing in this project."""

    code = "store.not_found"
    http_status = 404


class Conflict(StoreError):
    """Somebody else was first, or the state does not allow it."""

    code = "store.conflict"
    http_status = 409


class RowHeld(StoreError):
    """Another transaction has the row; nobody waits for it, and the same work may be tried again."""

    code = "store.held"
    retryable = True


class StoreBusy(StoreError):
    """The database does not answer now; the same request may be sent again."""

    code = "store.busy"
    http_status = 503
    retryable = True
