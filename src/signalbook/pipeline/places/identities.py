"""Find the credentials for the stores of Google and Azure in the same way as the SDKs of these clouds.

obstore and delta-rs support most kinds of credentials. But they mix the settings of a job with the environment, each in
a different order. So this module chooses the credentials and passes them to both. Kinds of credentials that neither
library supports are implemented here, or rejected with an explanation:
https://cloud.google.com/docs/authentication/application-default-credentials and
https://learn.microsoft.com/azure/developer/python/sdk/authentication/credential-chains.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from http.client import HTTPException
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import urlsplit

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places.roles import build_opener, is_answering
from signalbook.plugins import install

_SECONDS: Final = 10
_MOST: Final = 1 << 20
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_DEFAULT: Final = "GOOGLE_APPLICATION_CREDENTIALS"
# Variables that obstore reads. delta-rs reads them except the last.
_GOOGLE_KEY: Final = ("GOOGLE_SERVICE_ACCOUNT_KEY",)
_GOOGLE_FILE: Final = ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "SERVICE_ACCOUNT")
_NATIVE: Final = ("service_account", "authorized_user")
# Types of credentials for which google-auth gets a token.
_FEDERATED: Final = ("external_account", "external_account_authorized_user", "impersonated_service_account")
# The members of such a file that hold URLs to which secrets are sent.
_URL_MEMBERS: Final = ("token_url", "token_uri", "token_info_url", "service_account_impersonation_url")
_OAUTH_CODE: Final = re.compile(r"Error code (\w+)|['\"](?:error|status)['\"]: *['\"](\w+)")
_LOST_FILE: Final = re.compile(r"File '.*' was not found")

ACCOUNT: Final = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")
"""The variables for the name of an Azure account: of obstore, and of the program ``az``."""
KEY: Final = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY")
"""The variables for the key of an Azure account that obstore and delta-rs read."""
AZ_KEY: Final = "AZURE_STORAGE_KEY"
"""The variable for the key of an Azure account that the program ``az`` reads."""
CONNECTION: Final = "AZURE_STORAGE_CONNECTION_STRING"
SAS: Final = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")
_ENTRA: Final = {
    "tenant_id": ("AZURE_TENANT_ID", "AZURE_STORAGE_TENANT_ID"),
    "client_id": ("AZURE_CLIENT_ID", "AZURE_STORAGE_CLIENT_ID"),
    "client_secret": ("AZURE_CLIENT_SECRET", "AZURE_STORAGE_CLIENT_SECRET"),
    "federated_token_file": ("AZURE_FEDERATED_TOKEN_FILE",),
}
_IMDS: Final = "http://169.254.169.254"


def find_first(variables: Iterable[str]) -> str:
    """Return the value of the first environment variable in ``variables`` that is set and not empty, or ""."""
    return next(filter(None, map(os.environ.get, variables)), "")


def is_true(text: str) -> bool:
    """Return True if the value ``text`` of a setting or variable means true."""
    return text.lower() in ("1", "on", "true", "yes")


@dataclass(frozen=True, slots=True)
class GoogleTokens:
    """A provider of Google tokens for the credentials in ``file``, of a type that obstore does not support.

    obstore calls it again whenever a token is about to expire.
    """

    file: str

    def __call__(self) -> dict[str, Any]:
        """Return a new token in the form that obstore expects. Raises ``OSError``, whose text obstore reports."""
        from google.auth.exceptions import GoogleAuthError, TransportError

        try:
            credentials = _build_google_credentials(_read_google_file(self.file))
            credentials.refresh(_send_google_request)
        except PipelineError as error:  # the file was changed
            raise OSError(str(error)) from None
        except TransportError:
            raise OSError(f"the token service named in {self.file} does not answer") from None
        except (GoogleAuthError, ValueError, KeyError, TypeError) as error:
            raise OSError(f"no token is given by {self.file}{_find_reason(error)}") from None
        return {"token": credentials.token, "expires_at": credentials.expiry.replace(tzinfo=UTC)}


def _find_reason(error: Exception) -> str:
    """Return ": " and the error code or missing file in ``error``, or "". The rest of its text may contain secrets."""
    code, lost = _OAUTH_CODE.search(str(error)), _LOST_FILE.search(str(error))
    return f": {code[1] or code[2]}" if code else f": {lost[0]}" if lost else ""


def _send_google_request(
    url: str, method: str = "GET", body: bytes | None = None, headers: Mapping[str, str] | None = None, **_: Any
) -> Any:
    """Send a request for google-auth and return the response. Redirects are not followed."""
    from google.auth.exceptions import TransportError

    request = urllib.request.Request(url, body, dict(headers or {}), method=method)  # noqa: S310
    try:
        with build_opener(proxies=True).open(request, timeout=_SECONDS) as answer:
            return SimpleNamespace(status=answer.status, headers=answer.headers, data=answer.read(_MOST))
    except urllib.error.HTTPError as error:
        with error:
            return SimpleNamespace(status=error.code, headers=error.headers, data=error.read(_MOST))
    except (OSError, HTTPException) as error:
        raise TransportError(str(error)) from error  # type: ignore[no-untyped-call]


def _build_google_credentials(content: Mapping[str, Any]) -> Any:
    """Return google-auth's credentials for ``content``, the content of a credentials file."""
    from google.auth import aws, external_account_authorized_user, identity_pool, impersonated_credentials, pluggable

    if content["type"] == "external_account_authorized_user":  # its credentials have scopes already
        workforce: Any = external_account_authorized_user.Credentials.from_info
        return workforce(content)
    make: Any = identity_pool.Credentials.from_info
    if content["type"] == "impersonated_service_account":
        make = impersonated_credentials.Credentials.from_impersonated_service_account_info
    elif content["subject_token_type"] == "urn:ietf:params:aws:token-type:aws4_request":  # noqa: S105
        make = aws.Credentials.from_info
    elif "executable" in content["credential_source"]:
        make = pluggable.Credentials.from_info
    return make(content, scopes=[_SCOPE])


def _read_google_file(path: str) -> dict[str, Any]:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise PipelineError(f"cannot read {path}, which is to have credentials of Google") from None
    if not isinstance(content, dict):
        raise PipelineError(f"{path} has no credentials of Google")
    return content


def of_google(settings: Mapping[str, str]) -> dict[str, str]:
    """Return ``settings`` with the credentials for Google's stores, as options of obstore and delta-rs.

    Raises ``PipelineError`` for missing or unusable credentials.
    """
    options, asks = _find_google_identity(settings)
    if asks is None:
        _await_google()
    return options


def find_google_tokens(settings: Mapping[str, str]) -> GoogleTokens | None:
    """Return the provider of tokens, or None if obstore can get tokens itself. Raises ``PipelineError``."""
    asks = _find_google_identity(settings)[1]
    return asks if isinstance(asks, GoogleTokens) else None


def _find_google_identity(settings: Mapping[str, str]) -> tuple[dict[str, str], GoogleTokens | str | None]:
    """Return the options for Google's stores, and the source of the credentials.

    The source is a provider of tokens, the name of the setting or file with the credentials, or None if only the
    metadata server is left.
    """
    options = dict(settings)
    if is_true(options.get("anonymous", "") or os.environ.get("GOOGLE_SKIP_SIGNATURE", "")):
        return options, "anonymous"
    key, file = options.get("service_account_key", "") or find_first(_GOOGLE_KEY), options.get("service_account", "")
    file = file or find_first(_GOOGLE_FILE)
    if key and file:
        raise PipelineError(
            "both service_account and service_account_key are set, by the section storage of the job, or by "
            "GOOGLE_SERVICE_ACCOUNT and GOOGLE_SERVICE_ACCOUNT_KEY: leave one of them out"
        )
    if key:
        return {**options, "service_account_key": key}, "service_account_key"
    path = file or _find_default_file()
    if not path:
        return options, None
    content = _read_google_file(path)
    kind = content.get("type", "service_account")
    # Pass such a file on as ``service_account``: only there may it name an endpoint.
    if file and kind == "service_account":
        return {**options, "service_account": file}, file
    if file and find_first(_GOOGLE_FILE):
        raise PipelineError(f"GOOGLE_SERVICE_ACCOUNT names no service account's file: use {_DEFAULT} for {path}")
    options.pop("service_account", None)
    if kind in _NATIVE:
        return {**options, "application_credentials": path}, path
    if kind not in _FEDERATED:
        raise PipelineError(f"{path} is of the type {kind!r}; there are: {', '.join(_NATIVE + _FEDERATED)}")
    whose = content.get("source_credentials")
    for part in (content, whose if isinstance(whose, dict) else {}):
        for name in _URL_MEMBERS:
            if not str(part.get(name) or "https://").startswith("https://"):
                raise PipelineError(f"{path}: {name} is not https: no credentials are asked for there")
    source = content.get("credential_source")
    if isinstance(source, dict) and "certificate" in source:
        raise PipelineError(f"{path}: certificates as a source of tokens are not supported: use a file, URL or program")
    try:
        import google.auth  # noqa: F401
    except ModuleNotFoundError:
        raise PipelineError(f"{path}, of the type {kind!r}, needs google-auth: {install('google')}") from None
    return options, GoogleTokens(path)


def _find_default_file() -> str:
    """Return the path of the file with the application default credentials, or "" if there is none."""
    if path := os.environ.get(_DEFAULT, ""):
        return path
    folder = os.environ.get("CLOUDSDK_CONFIG", "") or "~/.config/gcloud"
    default_path = Path(folder).expanduser() / "application_default_credentials.json"
    return str(default_path) if default_path.is_file() else ""


def _await_google() -> None:
    """Raise ``PipelineError`` if no Google metadata server answers. obstore would try for half a minute."""
    advice = (
        "there are no credentials for Google Cloud Storage: set GOOGLE_APPLICATION_CREDENTIALS, log in by gcloud auth "
        "application-default login, or use the section storage of the job; "
    )
    if is_true(os.environ.get("NO_GCE_CHECK", "")):
        raise PipelineError(f"{advice}NO_GCE_CHECK forbids to ask this machine's metadata server")
    host = find_first(("GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP")) or "169.254.169.254"
    if not is_answering(f"http://{host}/", {"Metadata-Flavor": "Google"}):
        raise PipelineError(f"{advice}this machine has no metadata server of Google's at {host}")


def parse_connection_string() -> dict[str, str]:
    """Return the Azure connection string in the environment as settings of a job, empty if there is none.

    Raises ``PipelineError`` for a connection string without an account or credentials.
    """
    text = os.environ.get(CONNECTION, "")
    if not text:
        return {}
    parts = dict(part.strip().partition("=")[::2] for part in text.split(";") if part.strip())
    names = {"AccountName": "account_name", "AccountKey": "account_key", "SharedAccessSignature": "sas_token"}
    settings = {name: parts[theirs] for theirs, name in names.items() if parts.get(theirs)}
    endpoint, suffix = parts.get("BlobEndpoint", ""), parts.get("EndpointSuffix", "core.windows.net")
    if not endpoint and "account_name" in settings:
        scheme = parts.get("DefaultEndpointsProtocol", "https")
        endpoint = f"{scheme}://{settings['account_name']}.blob.{suffix}"
    settings.setdefault("account_name", (urlsplit(endpoint).hostname or "").partition(".")[0])
    if not settings["account_name"] or not settings.keys() & {"account_key", "sas_token"}:
        raise PipelineError(f"{CONNECTION} has no account, or neither key nor signature")
    if "account_key" in settings:
        settings.pop("sas_token", None)
    return {**settings, "endpoint": endpoint.rstrip("/")}


def is_without_key(settings: Mapping[str, str]) -> bool:
    """Return True if ``settings`` have no credentials for Azure and the environment has no account key."""
    return settings.keys().isdisjoint(("account_key", "anonymous", "client_secret", "sas_token")) and not find_first(
        (*KEY, AZ_KEY)
    )


def of_azure(settings: Mapping[str, str], root: str) -> dict[str, str]:
    """Return ``settings`` with the credentials for the Azure store at ``root``, as options of obstore and delta-rs.

    The option ``credential_type`` is the kind of credentials. It is missing for anonymous access, and for cases that
    obstore handles itself. Raises ``PipelineError`` for missing or unusable credentials, or without an account.
    """
    options = dict(settings)
    if is_true(os.environ.get("AZURE_STORAGE_USE_EMULATOR", "")) or "AZURE_FABRIC_TOKEN_SERVICE_URL" in os.environ:
        return options  # obstore handles these cases itself
    stated_account = options.get("account_name", "") or find_first(ACCOUNT)
    account = root.partition("@")[2].partition(".")[0] or stated_account
    if not account:
        raise PipelineError(
            "no account of Azure is named: write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER, or set "
            "account_name in the section storage of the job or AZURE_STORAGE_ACCOUNT_NAME in the environment"
        )
    options["account_name"] = account
    if is_true(options.get("anonymous", "") or os.environ.get("AZURE_SKIP_SIGNATURE", "")):
        return options
    options |= _choose_way(options)
    if options["credential_type"] in ("access_key", "sas_token") and stated_account and stated_account != account:
        raise PipelineError(f"the key or signature is of the account {stated_account}, but {root} is of {account}")
    return options


def _choose_way(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the options for the first kind of credentials that is set in ``settings`` or the environment."""
    entra = {name: settings.get(name, "") or find_first(variables) for name, variables in _ENTRA.items()}
    if key := settings.get("account_key"):
        return {"credential_type": "access_key", "account_key": key}
    if token := settings.get("sas_token"):
        return {"credential_type": "sas_token", "sas_token": token}
    if "client_secret" not in settings:
        if key := find_first(KEY) or os.environ.get(AZ_KEY, ""):
            return {"credential_type": "access_key", "account_key": key}
        if token := find_first(SAS):
            return {"credential_type": "sas_token", "sas_token": token}
        if token := os.environ.get("AZURE_STORAGE_TOKEN", ""):
            return {"credential_type": "bearer_token", "bearer_token": token}
    if entra["client_secret"]:
        return {"credential_type": "client_secret", **_build_entra_options(entra, "client_secret")}
    if entra["federated_token_file"]:
        return {"credential_type": "workload_identity", **_build_entra_options(entra, "federated_token_file")}
    if os.environ.get("AZURE_CLIENT_CERTIFICATE_PATH"):
        raise PipelineError(
            "AZURE_CLIENT_CERTIFICATE_PATH: certificates are not known here; set AZURE_CLIENT_SECRET or "
            "AZURE_FEDERATED_TOKEN_FILE instead"
        )
    return _build_managed_options({"client_id": entra["client_id"]} if entra["client_id"] else {})


def _build_entra_options(entra: Mapping[str, str], proof: str) -> dict[str, str]:
    """Return the options for tokens of Entra ID.

    ``entra`` has the settings, ``proof`` the name of the setting that proves the identity of the client.
    """
    lacking = [name for name in ("tenant_id", "client_id") if not entra[name]]
    if lacking:
        missing = " and ".join(f"{name} ({_ENTRA[name][0]})" for name in lacking)
        raise PipelineError(f"{proof} ({_ENTRA[proof][0]}) is set for Azure without {missing}")
    options = {name: entra[name] for name in ("tenant_id", "client_id", proof)}
    host = find_first(("AZURE_AUTHORITY_HOST", "AZURE_STORAGE_AUTHORITY_HOST")).rstrip("/")
    if not host:
        return options
    host = host if "://" in host else f"https://{host}"
    if not host.startswith("https://"):
        raise PipelineError("AZURE_AUTHORITY_HOST is not https: no credentials are sent there")
    return {**options, "authority_host": host}


def _build_managed_options(client: Mapping[str, str]) -> dict[str, str]:
    """Return the options for tokens of this machine or app, or of the program ``az``. ``client`` are more options."""
    cli = {"credential_type": "azure_cli", "use_azure_cli": "true"}
    if is_true(os.environ.get("AZURE_USE_AZURE_CLI", "")):
        return cli
    app = os.environ.get("IDENTITY_ENDPOINT", "")
    if app and ("IMDS_ENDPOINT" in os.environ or "IDENTITY_SERVER_THUMBPRINT" in os.environ):
        raise PipelineError(
            "IDENTITY_ENDPOINT is that of Azure Arc or Service Fabric, which is not known here: set "
            "AZURE_CLIENT_SECRET, AZURE_TENANT_ID and AZURE_CLIENT_ID"
        )
    if app and os.environ.get("IDENTITY_HEADER"):
        return {"credential_type": "managed_identity", "msi_endpoint": app, **client}
    host = os.environ.get("AZURE_POD_IDENTITY_AUTHORITY_HOST", "").rstrip("/") or _IMDS
    endpoint = os.environ.get("AZURE_MSI_ENDPOINT", "") or f"{host}/metadata/identity/oauth2/token"
    # The program is usually installed on a personal computer, which has no identity service.
    program = shutil.which("az")
    if is_answering(endpoint, {}, once=program is not None):
        return {"credential_type": "managed_identity", "msi_endpoint": endpoint, **client}
    if program:
        return cli
    raise PipelineError(
        "there are no credentials for Azure: set AZURE_STORAGE_ACCOUNT_KEY, AZURE_CLIENT_SECRET or others, log in by "
        "az login, or use the section storage of the job; this machine has no identity service at "
        f"{urlsplit(endpoint).netloc}"
    )
