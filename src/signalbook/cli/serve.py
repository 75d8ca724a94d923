"""``signalbook serve``: its options are the table of settings."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Option

from signalbook import settings
from signalbook.cli.console import declare_options

PANELS: Final = {
    "Most used": "host port db from_folder base_url workers access tls_cert tls_key log_level",
    "The registry": "registry_id model capabilities",
    "Rules for definitions": "domain_rules incompatible_changes default_compatibility",
    "Web pages and APIs": """
        ui pipeline_late_hours pipeline_failing_share allow_hosts allow_origins page_size confluent_group confluent_port
        strict_openapi
        """,
    "Limits on requests": """
        threads max_body_bytes max_response_bytes max_page_size max_depth max_json_values max_work work_timeout
        request_timeout body_timeout answer_timeout limits limit_requests limit_writes limit_reads limit_logins
        """,
    "Limits on the registry": """
        max_entity_bytes max_group_resources max_group_versions max_group_bytes max_pipelines max_reports
        max_subscriptions
        """,
    "Change events": """
        event_retention deliveries delivery_days allow_sinks sink_consent sink_timeout sink_folder key_file
        """,
    "Copies of registries": "follow push follow_seconds follow_authorities copies",
    "Access and audit": """
        access_file audit audit_days audit_log audit_reads tls_client_ca trusted_proxies proxy_user_header
        proxy_groups_header
        """,
    "Tokens of identity providers": """
        oidc_issuers oidc_audience oidc_algorithms oidc_subject_claim oidc_groups_claim oidc_leeway oidc_client_id
        oidc_scope
        """,
    "Logins to the explorer": """
        login login_issuer login_client_id login_client_secret login_scope session_hours
        """,
    "Files and logs": "reload_seconds allow_fetch log_format",
}
"""The panels of the help text, and the settings in each."""


def run(**given: Any) -> None:
    """Run the registry server.

    Every option is also a variable in the environment (--base-url: SIGNALBOOK_BASE_URL) and a line in signalbook.toml
    (base_url = "...").
    """
    # Nothing that is imported becomes garbage: to look through all of it again and again takes a quarter of the start.
    gc.disable()
    from signalbook import server

    config: Path | None = given.pop("config", None)
    server.run(settings.load(given, environ=os.environ, config=config))


def _build_options() -> dict[str, Any]:
    options = {name: _build_setting(name, panel) for panel, names in PANELS.items() for name in names.split()}
    text = f"Configuration file. Default: {settings.CONFIG_FILE}, if it is there."
    return {
        **options,
        "config": Annotated[Path | None, Option("--config", help=text, rich_help_panel="Files and logs")],
    }


def _build_setting(name: str, panel: str) -> Any:
    default = getattr(settings.Settings, name)
    kind: Any = list[str] if isinstance(default, tuple) else type(default)
    text = _describe_setting(name, default)
    return Annotated[kind | None, Option(settings.option_for(name), help=text, rich_help_panel=panel)]


def _describe_setting(name: str, default: Any) -> str:
    text = settings.help_for(name)
    if isinstance(default, tuple):
        listed = f" Default: {','.join(default)}." if default else ""
        return f"{text}{listed} May be given again."
    return text if default == "" else f"{text} Default: {default}."


declare_options(run, _build_options())
