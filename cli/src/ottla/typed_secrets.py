"""Warnings of secrets that are typed as they are, as callbacks of the options and arguments that take settings."""

import typer

from ottla.output import note
from ottla_sdk.kafka.typed_secrets import UsedBy, warning_of_secrets


def warn_of_secrets(
    context: typer.Context, option: typer.CallbackParam, assignments: list[str] | None
) -> list[str] | None:
    """Warn of secrets among settings that the command itself looks up; return what was typed."""
    return _warned(context, option.opts[0], assignments, UsedBy.COMMAND)


def warn_of_kept_secrets(
    context: typer.Context, option: typer.CallbackParam, assignments: list[str] | None
) -> list[str] | None:
    """Warn of secrets among settings that brokers or workers keep; return what was typed."""
    return _warned(context, option.opts[0], assignments, UsedBy.CONFIG_PROVIDERS)


def warn_of_secrets_of_processes(
    context: typer.Context, option: typer.CallbackParam, assignments: list[str] | None
) -> list[str] | None:
    """Warn of secrets among settings of the cluster's processes; return what was typed.

    An argument has no dashes, so the command's words stand for it.
    """
    name = option.opts[0] if option.param_type_name == "option" else context.command_path
    return _warned(context, name, assignments, UsedBy.PROCESS)


def _warned(context: typer.Context, option: str, assignments: list[str] | None, used_by: UsedBy) -> list[str] | None:
    said = warning_of_secrets(option, assignments or (), used_by=used_by)
    if said is not None and not context.resilient_parsing:  # a completion must print nothing
        note(f"ottla: warning: {said}")
    return assignments
