"""Warnings of secrets that are typed as they are, as callbacks of the options that take settings."""

import typer

from ottla.output import note
from ottla_sdk.kafka.typed_secrets import warning_of_secrets


def warn_of_secrets(
    context: typer.Context, option: typer.CallbackParam, assignments: list[str] | None
) -> list[str] | None:
    """Warn of secrets among settings that the command itself looks up; return what was typed."""
    return _warned(context, option, assignments, kept_by_services=False)


def warn_of_kept_secrets(
    context: typer.Context, option: typer.CallbackParam, assignments: list[str] | None
) -> list[str] | None:
    """Warn of secrets among settings that brokers or workers keep; return what was typed."""
    return _warned(context, option, assignments, kept_by_services=True)


def _warned(
    context: typer.Context, option: typer.CallbackParam, assignments: list[str] | None, *, kept_by_services: bool
) -> list[str] | None:
    said = warning_of_secrets(option.opts[0], assignments or (), kept_by_services=kept_by_services)
    if said is not None and not context.resilient_parsing:  # a completion must print nothing
        note(f"ottla: warning: {said}")
    return assignments
