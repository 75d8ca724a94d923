"""The settings of stores: from a job, from the environment, or from the files of AWS's tools, in this order.

obstore finds other settings like the SDKs of the clouds: in the environment, from a web identity, or from the role of
the machine or container. ``roles.py`` adds what obstore lacks for AWS, ``identities.py`` for Google and Azure.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places.identities import (
    AZ_KEY,
    CONNECTION,
    KEY,
    SAS,
    find_first,
    find_google_tokens,
    is_true,
    is_without_key,
    of_azure,
    of_google,
    parse_connection_string,
)
from signalbook.pipeline.places.roles import find_container_keys, find_metadata_service

_COMMON: Final = frozenset({"allow_http"})
_SETTINGS: Final[dict[str, frozenset[str]]] = {
    "s3": frozenset(
        {
            "access_key_id",
            "anonymous",
            "endpoint",
            "profile",
            "region",
            "request_payer",
            "secret_access_key",
            "session_token",
            "virtual_hosted",
        }
    ),
    "hdfs": frozenset({"namenodes"}),
    "gs": frozenset({"anonymous", "service_account", "service_account_key"}),
    "az": frozenset(
        {"account_key", "account_name", "anonymous", "client_id", "client_secret", "endpoint", "sas_token", "tenant_id"}
    ),
}
# Settings that have another name in obstore.
_OBSTORE_NAMES: Final = {
    "anonymous": "skip_signature",
    "sas_token": "sas_key",
    "virtual_hosted": "virtual_hosted_style_request",
}
# Settings that are not secret.
_OPEN: Final = frozenset(
    {
        "account_name",
        "allow_http",
        "anonymous",
        "endpoint",
        "namenodes",
        "profile",
        "region",
        "request_payer",
        "virtual_hosted",
    }
)
# Environment variables of the SDKs with secrets, which no error text may contain.
_VARIABLES: Final = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    *KEY,
    AZ_KEY,
    *SAS,
    CONNECTION,
    "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_TOKEN",
    "IDENTITY_HEADER",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
)
_SECRET: Final = re.compile(r" *(?:AccountKey|SharedAccessSignature)=")
_TEMPORARY: Final = ("role_arn", "sso_session", "sso_start_url", "credential_process", "web_identity_token_file")


@dataclass(frozen=True, slots=True)
class Storage:
    """The settings of the section ``storage`` of a job, by name. Its ``repr`` contains no values."""

    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, section: Mapping[str, str]) -> Storage:
        """Return the settings of ``section``, whose variables are replaced already.

        Raises ``PipelineError`` for an unknown setting.
        """
        known_settings = _COMMON.union(*_SETTINGS.values())
        for name in section:
            if name not in known_settings:
                raise PipelineError(f"storage has no setting {name!r}; there are: {', '.join(sorted(known_settings))}")
        return cls(tuple(sorted(section.items())))

    def __repr__(self) -> str:
        """Return only the names of the settings, because values may be secret."""
        return f"Storage({', '.join(name for name, _ in self.options)})"

    def get(self, name: str) -> str:
        """Return the value of the setting ``name``, or ""."""
        return dict(self.options).get(name, "")

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets of the job and the environment, longest first, because a secret may contain another."""
        values = (value for name, value in self.options if name not in _OPEN)
        parts = (part.partition("=")[2] for part in os.environ.get(CONNECTION, "").split(";") if _SECRET.match(part))
        every = filter(None, (*values, *parts, *(os.environ.get(name, "") for name in _VARIABLES)))
        return tuple(sorted(every, key=len, reverse=True))

    def find_settings(self, kind: str) -> dict[str, str]:
        """Return the settings for stores of ``kind``: ``s3``, ``gs`` or ``az``.

        Raises ``PipelineError`` for an endpoint without encryption that is not allowed, an unusable profile of AWS, and
        an unusable connection string of Azure.
        """
        existing = {name: value for name, value in self.options if name in _SETTINGS[kind] | _COMMON}
        if kind == "s3":
            profile = existing.pop("profile", "")
            existing = {**read_aws_profile(profile, keys=bool(profile) or not _has_keys(existing)), **existing}
        if kind == "az" and is_without_key(existing):
            existing = {**parse_connection_string(), **existing}
        endpoint = existing.get("endpoint", "") or find_first(_ENDPOINTS[kind])
        variable = _ALLOW_HTTP[kind]
        allowed = is_true(existing.get("allow_http", "") or os.environ.get(variable, ""))
        if endpoint.startswith("http://") and not allowed:
            raise PipelineError(
                f"{endpoint} is not encrypted: use https, or set allow_http in the section storage of the job "
                f"or {variable} in the environment"
            )
        return existing

    def build_obstore_options(self, kind: str, root: str = "") -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the configuration and the client's options that obstore needs for the store at ``root``.

        Raises ``PipelineError``, also if there are no credentials and no service that provides some.
        """
        settings = self.find_settings(kind)
        client = {"allow_http": is_true(settings.pop("allow_http"))} if "allow_http" in settings else None
        if kind == "gs":
            settings = of_google(settings)
        if kind == "az":
            settings = of_azure(settings, root)
        config = {_OBSTORE_NAMES.get(name, name): value for name, value in settings.items()}
        if kind == "s3":
            if "endpoint" in config:  # otherwise an environment variable of this name would take precedence
                config["aws_endpoint_url_s3"] = config["endpoint"]
            if not _has_keys(settings):
                config |= find_metadata_service()
        return config, client

    def find_credential_provider(self, kind: str) -> Callable[[], dict[str, Any]] | None:
        """Return the provider of keys or tokens, or None if obstore can get them itself. Raises ``PipelineError``."""
        if kind == "gs":
            return find_google_tokens(self.find_settings(kind))
        return find_container_keys() if kind == "s3" and not _has_keys(self.find_settings(kind)) else None

    def find_s3_endpoint(self, bucket: str) -> str:
        """Return the endpoint of an S3 ``bucket`` in the same way as obstore, or "" for S3 Express (one zone).

        Raises ``PipelineError``.
        """
        if is_true(os.environ.get("AWS_S3_EXPRESS", "")):
            return ""
        settings = self.find_settings("s3")
        endpoint = settings.get("endpoint", "") or find_first(_ENDPOINTS["s3"])
        if endpoint:
            return endpoint
        host = f"s3.{settings.get('region', '') or find_first(_ENVIRONMENT['region']) or 'us-east-1'}.amazonaws.com"
        by_name = settings.get("virtual_hosted", "") or os.environ.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "")
        return f"https://{bucket}.{host}" if is_true(by_name) else f"https://{host}"

    def build_hadoop_options(self, root: str) -> dict[str, str]:
        """Return Hadoop's settings for the name service at ``root``.

        The result is empty without the setting ``namenodes``, and if ``root`` has a port and so is no name service.
        """
        service, namenodes = root.partition("://")[2], self.get("namenodes")
        if not namenodes or ":" in service:
            return {}
        numbered = dict(enumerate(address.strip() for address in namenodes.split(",")))
        provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        return {
            "dfs.nameservices": service,
            f"dfs.ha.namenodes.{service}": ",".join(f"nn{number}" for number in numbered),
            f"dfs.client.failover.proxy.provider.{service}": provider,
            **{f"dfs.namenode.rpc-address.{service}.nn{number}": namenode for number, namenode in numbered.items()},
        }

    def mask(self, text: str) -> str:
        """Return ``text`` with each secret replaced by ``***``."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def _has_keys(settings: Mapping[str, str]) -> bool:
    """Return True if S3 needs no role of the machine or container.

    This is the case if the section or the environment has other credentials, or sets anonymous access.
    """
    anonymous = settings.get("anonymous", "") or os.environ.get("AWS_SKIP_SIGNATURE", "")
    if settings.get("access_key_id") or is_true(anonymous):
        return True
    variables: list[tuple[str, ...]] = [("AWS_ACCESS_KEY_ID",)]
    if "AWS_PROFILE" not in os.environ:  # a profile would have its own credentials
        variables.append(("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"))
    return any(all(map(os.environ.get, names)) for names in variables)


def read_aws_profile(name: str, *, keys: bool = True) -> dict[str, str]:
    """Return the region and endpoint of a profile in AWS's files, and its keys if ``keys`` is set.

    An empty ``name`` means the profile in ``AWS_PROFILE``, or else ``default``. If ``keys`` is set, raises
    ``PipelineError`` for a missing named profile, and for a profile whose keys are created on demand. A region or
    endpoint that the environment sets is left out.
    """
    wanted_name = name or os.environ.get("AWS_PROFILE", "")
    profile = wanted_name or "default"
    home = Path("~/.aws").expanduser()
    config = _read_section(Path(os.environ.get("AWS_CONFIG_FILE") or home / "config"), profile, "profile ")
    secret = _read_section(Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials"), profile, "")
    section = {**config, **secret}
    if keys and wanted_name and not section:
        raise PipelineError(f"the files of AWS's tools have no profile {wanted_name!r}")
    temporary = next((key for key in _TEMPORARY if key in section), None)
    if keys and temporary and "aws_access_key_id" not in section:
        raise PipelineError(
            f"the profile {profile!r} has {temporary}, whose keys are made on demand: have the tools do that first, "
            f'by eval "$(aws configure export-credentials --profile {profile} --format env)"'
        )
    names = {"endpoint_url": "endpoint", "region": "region", **(_KEYS if keys else {})}
    # The environment takes precedence over the files. obstore reads the environment itself.
    set_already = {
        name for name, variables in _ENVIRONMENT.items() if any(variable in os.environ for variable in variables)
    }
    return {names[key]: value for key, value in section.items() if key in names and names[key] not in set_already}


_KEYS: Final = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}
_ENDPOINTS: Final = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_ALLOW_HTTP: Final = {"s3": "AWS_ALLOW_HTTP", "gs": "GOOGLE_ALLOW_HTTP", "az": "AZURE_ALLOW_HTTP"}
_ENVIRONMENT: Final = {
    "endpoint": _ENDPOINTS["s3"],
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}


def _read_section(path: Path, profile: str, prefix: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError, OSError):
        raise PipelineError(f"cannot read {path}, where AWS's tools keep profiles") from None
    for name in (f"{prefix}{profile}", profile):
        if parser.has_section(name):
            return dict(parser.items(name))
    return {}
