"""Who asks the stores of Google and Azure in tests: variables and files of each way to be somebody there."""

import json
import os
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.brokers.google import Google
from tests.brokers.tokens import ACCOUNT, AUDIENCE, CLIENT, REFRESH, TENANT, TokenServer

GOOGLE = ("metadata server", "user", "user of gcloud", "service account")
FEDERATED = ("file", "url", "aws", "program", "workforce", "impersonation", "impersonated user")
AZURE = ("machine", "app", "workload", "secret", "az", "secret of a job")
NAMES = ("AZURE_", "GOOGLE_", "GCE_", "CLOUDSDK_", "IDENTITY_", "IMDS_", "NO_GCE_CHECK", "SERVICE_ACCOUNT")
DEFAULT = "GOOGLE_APPLICATION_CREDENTIALS"
AZ = """#!/bin/sh
[ "$*" = "account get-access-token --output json --scope https://storage.azure.com/.default" ] || exit 1
cat "$0.json"
"""


def set_all(environ: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
    for name, value in variables.items():
        environ.setenv(name, value)


def google_role(way: str, tokens: TokenServer, google: Google, folder: Path) -> dict[str, str]:
    """The variables, and files, of somebody who asks Google's stores without a key in the job."""
    file = folder / "credentials.json"
    if way == "metadata server":
        return {"GCE_METADATA_HOST": tokens.plain}
    if way == "service account":
        file.write_text(google.account)
    elif way.startswith("user"):
        if way == "user of gcloud":
            file = folder / "application_default_credentials.json"
        file.write_text(json.dumps({"type": "authorized_user", **REFRESH}))
        proxy = {"HTTPS_PROXY": f"http://{tokens.plain}"}
        return {**proxy, **({"CLOUDSDK_CONFIG": str(folder)} if "of" in way else {DEFAULT: str(file)})}
    else:
        file.write_text(json.dumps(federated(way, tokens, folder)))
        more = {
            "aws": {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": CLIENT, "AWS_SECRET_ACCESS_KEY": tokens.proof},
            "program": {"GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES": "1"},
            "impersonated user": {"HTTPS_PROXY": f"http://{tokens.plain}", "NO_PROXY": "127.0.0.1"},
        }
        return {**more.get(way, {}), DEFAULT: str(file)}
    return {DEFAULT: str(file)}


def federated(way: str, tokens: TokenServer, folder: Path) -> dict[str, object]:
    """A file of Google's for whoever is known elsewhere."""
    impersonation = f"https://{tokens.secure}/v1/projects/-/serviceAccounts/{ACCOUNT}:generateAccessToken"
    (folder / "subject").write_text(tokens.proof)
    source: dict[str, object] = {"file": str(folder / "subject")}
    if way == "url":
        source = {
            "url": f"http://{tokens.plain}/subject",
            "headers": {"x-proof": "yes"},
            "format": {"type": "json", "subject_token_field_name": "jwt"},
        }
    kind = "urn:ietf:params:oauth:token-type:jwt"
    if way == "aws":
        kind = "urn:ietf:params:aws:token-type:aws4_request"
        who = "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15"
        source = {"environment_id": "aws1", "regional_cred_verification_url": who}
    if way == "program":
        token_response = {"version": 1, "success": True, "token_type": kind, "id_token": tokens.proof}
        (folder / "told.json").write_text(json.dumps({**token_response, "expiration_time": int(time.time()) + 3600}))
        source = {"executable": {"command": f"cat {folder}/told.json", "timeout_millis": 30000}}
    if way == "workforce":
        signed_in = {**REFRESH, "token_url": f"https://{tokens.secure}/v1/oauthtoken"}
        return {"type": "external_account_authorized_user", "audience": AUDIENCE, **signed_in}
    credentials: dict[str, object] = {
        "type": "external_account",
        "audience": AUDIENCE,
        "subject_token_type": kind,
        "token_url": f"https://{tokens.secure}/v1/token",
        "credential_source": source,
    }
    if way == "impersonation":
        return {**credentials, "service_account_impersonation_url": impersonation}
    if way == "impersonated user":
        impersonated = {"type": "impersonated_service_account", "service_account_impersonation_url": impersonation}
        return {**impersonated, "source_credentials": {"type": "authorized_user", **REFRESH}, "delegates": []}
    return credentials


def azure_role(way: str, tokens: TokenServer, folder: Path) -> dict[str, str]:
    """The same for Azure's."""
    entra = {
        "AZURE_AUTHORITY_HOST": f"https://{tokens.secure}/",  # as AKS has it
        "AZURE_CLIENT_ID": CLIENT,
        "AZURE_TENANT_ID": TENANT,
    }
    if way == "machine":
        return {"AZURE_POD_IDENTITY_AUTHORITY_HOST": f"http://{tokens.plain}", "AZURE_CLIENT_ID": CLIENT}
    if way == "app":
        return {"IDENTITY_ENDPOINT": f"http://{tokens.plain}/msi/token", "IDENTITY_HEADER": tokens.proof}
    if way == "workload":
        (folder / "proof").write_text(tokens.proof)
        return {**entra, "AZURE_FEDERATED_TOKEN_FILE": str(folder / "proof")}
    if way == "az":
        program = folder / "az"
        program.write_text(AZ)
        program.chmod(0o700)
        ends = datetime.now() + timedelta(seconds=tokens.lasting)
        answer = {"accessToken": tokens.entra(), "expiresOn": f"{ends:%Y-%m-%d %H:%M:%S.%f}", "tokenType": "Bearer"}
        (folder / "az.json").write_text(json.dumps(answer))
        return {"PATH": f"{folder}:{os.environ['PATH']}", "AZURE_USE_AZURE_CLI": "true"}
    return {**entra, **({"AZURE_CLIENT_SECRET": tokens.proof} if way == "secret" else {})}
