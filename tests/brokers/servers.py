"""How each broker is set up: who may connect where, and the command that starts it."""

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.brokers.certificates import Certificates
from tests.brokers.program import Broker, Ports

from signalbook.demo import kafka as cluster

USER: Final = "alice"
PASSWORD: Final = "wonder-2f81"
BUCKET: Final = "lake"
"""Of stores."""
ACCOUNT: Final = "parcels"
"""Azure's, with ``ACCOUNT_KEY``."""
ACCOUNT_KEY: Final = base64.b64encode(b"the key of nothing but tests, 2f81").decode()
AZURITE: Final = Path(sys.prefix) / "azurite/node_modules/azurite/dist/src/blob/main.js"
METADATA: Final = Path(sys.prefix) / "brokers/metadata/ec2-metadata-mock"
"""Where ``tools/setup test`` builds it, if there is Go."""


def mosquitto(folder: Path, certificates: Certificates) -> Broker:
    """An MQTT broker: ``plain`` for anybody, ``password`` for USER, ``tls`` for anybody."""

    def configure(folder: Path, ports: Ports) -> list[str]:
        passwords = folder / "passwords"
        passwords.touch(mode=0o600)
        subprocess.run(
            [_program("mosquitto_passwd", "mosquitto"), "-b", passwords, USER, PASSWORD],
            check=True,
            capture_output=True,
        )
        lines = [
            "per_listener_settings true",
            "max_queued_messages 0",  # any number: by itself it drops what is beyond a thousand
            *(["user root"] if os.geteuid() == 0 else []),  # else it gives up the right to read this folder
            f"listener {ports['plain']} 127.0.0.1",
            "allow_anonymous true",
            f"listener {ports['password']} 127.0.0.1",
            f"password_file {passwords}",
            f"listener {ports['tls']} 127.0.0.1",
            f"certfile {certificates.chain}",
            f"keyfile {certificates.key}",
            "allow_anonymous true",
        ]
        (folder / "conf").write_text("\n".join(lines) + "\n")
        return [_program("mosquitto"), "-c", str(folder / "conf")]

    return Broker("mosquitto", folder, configure, " running", ("plain", "password", "tls"))


def nats(folder: Path, certificates: Certificates) -> Broker:
    """A NATS server with JetStream; ``plain`` takes anybody, USER, and TLS; ``password`` only USER."""

    def configure(folder: Path, ports: Ports) -> list[str]:
        (folder / "conf").write_text(f"""
            listen: "127.0.0.1:{ports["plain"]}"
            jetstream {{ store_dir: "{folder / "jetstream"}" }}
            authorization {{ users: [
              {{ user: "{USER}", password: "{PASSWORD}" }}
              {{ user: "guest", password: "guest" }}
              {{ user: "bounded", password: "{PASSWORD}", permissions: {{ publish: ["open.>", "_INBOX.>"] }} }}
            ] }}
            no_auth_user: "guest"
            tls {{ cert_file: "{certificates.chain}", key_file: "{certificates.key}" }}
            allow_non_tls: true
        """)
        return [_program("nats-server"), "-c", str(folder / "conf")]

    return Broker("nats-server", folder, configure, "Server is ready", ("plain",))


def kafka(folder: Path, certificates: Certificates) -> Broker:
    """A Kafka cluster of one: ``plain`` for anybody, ``password`` for USER, ``tls`` for anybody.

    ``away`` tells clients to go on at 127.0.0.2, where ``far`` is.
    """
    settings = {
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,PASSWORD:SASL_PLAINTEXT,TLS:SSL,AWAY:PLAINTEXT,"
        "FAR:PLAINTEXT,CONTROL:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.password.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
        f'required user_{USER}="{PASSWORD}";',
        "listener.name.tls.ssl.keystore.type": "PEM",
        "listener.name.tls.ssl.keystore.location": str(certificates.both),
    }

    def configure(folder: Path, ports: Ports) -> list[str]:
        near = [(name.upper(), "127.0.0.1", ports[name]) for name in ("plain", "password", "tls")]
        far = ("FAR", "127.0.0.2", ports["far"])
        advertised = [*near, far, ("AWAY", *far[1:])]
        internal = [("AWAY", "127.0.0.1", ports["away"]), ("CONTROL", "127.0.0.1", ports["control"])]
        places = {
            "listeners": ",".join(f"{name}://{host}:{port}" for name, host, port in [*near, far, *internal]),
            "advertised.listeners": ",".join(f"{name}://{host}:{port}" for name, host, port in advertised),
        }
        return cluster.configure(folder, ports, {**settings, **places})

    return Broker("Kafka", folder, configure, cluster.READY, (*cluster.LISTENERS, "password", "tls", "away", "far"))


def artemis(folder: Path, certificates: Certificates) -> Broker:
    """An AMQP 1.0 broker, ActiveMQ Artemis: ``plain`` for anybody and USER, ``tls`` likewise.

    It makes a queue of each address; those below ``refused.`` may not be sent to, ``small`` takes two messages.
    """
    login = f"""Tests {{
      org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule sufficient baseDir="{folder}"
        org.apache.activemq.jaas.properties.user="users" org.apache.activemq.jaas.properties.role="roles";
      org.apache.activemq.artemis.spi.core.security.jaas.GuestLoginModule sufficient credentialsInvalidate=true
        org.apache.activemq.jaas.guest.user="guest" org.apache.activemq.jaas.guest.role="some";
    }};"""

    def configure(folder: Path, ports: Ports) -> list[str]:
        (folder / "login").write_text(login)
        (folder / "users").write_text(f"{USER}={PASSWORD}\n")
        (folder / "roles").write_text(f"some={USER}\n")
        (folder / "etc").mkdir(exist_ok=True)
        (folder / "etc" / "broker.xml").write_text(_broker_xml(folder, ports, certificates))
        login_module = f"-Djava.security.auth.login.config={folder / 'login'}"
        return cluster.command(
            "artemis", login_module, "org.apache.activemq.artemis.core.server.embedded.Main", str(folder)
        )

    return Broker("Artemis", folder, configure, "AMQ221007", ("plain", "tls"))


def rest_catalog(folder: Path, certificates: Certificates) -> Broker:
    """An Iceberg REST catalog for anybody, at ``plain``; what it knows outlives it."""

    def configure(folder: Path, ports: Ports) -> list[str]:
        settings = {
            "CLIENTS": "1",  # of the database, in which only one can write
            "URI": f"jdbc:sqlite:{folder / 'catalog.db'}",
            "WAREHOUSE": f"file://{folder}/warehouse",
            "REST_PORT": str(ports["plain"]),
        }
        variables = [f"CATALOG_{name}={value}" for name, value in settings.items()]
        return ["env", *variables, *cluster.command("iceberg", "org.apache.iceberg.rest.RESTCatalogServer")]

    return Broker("the Iceberg REST catalog", folder, configure, "Started Server@", ("plain",))


def s3proxy(folder: Path, certificates: Certificates) -> Broker:
    """An S3 server for USER with PASSWORD, its buckets folders in ``data``, with an empty one called BUCKET."""

    def configure(folder: Path, ports: Ports) -> list[str]:
        (folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
        settings = {
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.endpoint": f"http://127.0.0.1:{ports['plain']}",
            "s3proxy.identity": USER,
            "s3proxy.credential": PASSWORD,
            # Such as the token that comes with temporary keys; it is signed with the rest.
            "s3proxy.ignore-unknown-headers": "true",
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(folder / "data"),
        }
        (folder / "conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return cluster.command("s3", "-Xmx256m", "org.gaul.s3proxy.Main", "--properties", str(folder / "conf"))

    return Broker("s3proxy", folder, configure, "Started ogsoejs.Server", ("plain",))


def s3mock(folder: Path, certificates: Certificates) -> Broker:
    """An S3 server for anybody, with an empty bucket called BUCKET."""

    def configure(folder: Path, ports: Ports) -> list[str]:
        options = {
            "server.port": "0",  # that of HTTPS
            "com.adobe.testing.s3mock.httpPort": str(ports["plain"]),
            "com.adobe.testing.s3mock.store.initialBuckets": BUCKET,
            "com.adobe.testing.s3mock.store.root": str(folder / "data"),
            "com.adobe.testing.s3mock.store.retainFilesOnExit": "true",
        }
        (folder / "data").mkdir(exist_ok=True)
        arguments = [f"--{name}={value}" for name, value in options.items()]
        return cluster.command("s3", "-Xmx256m", "org.springframework.boot.loader.launch.JarLauncher", *arguments)

    return Broker("S3Mock", folder, configure, "Started S3MockApplication", ("plain",))


def metadata(folder: Path, certificates: Certificates) -> Broker:
    """The metadata service of an instance (IMDSv2) whose role is USER with PASSWORD: AWS's own emulator."""
    keys = {
        "Code": "Success",
        "Type": "AWS-HMAC",
        "AccessKeyId": USER,
        "SecretAccessKey": PASSWORD,
        "Token": "token-of-the-instance",
        "LastUpdated": "2026-01-01T00:00:00Z",
        "Expiration": "2099-01-01T00:00:00Z",
    }

    def configure(folder: Path, ports: Ports) -> list[str]:
        if not METADATA.exists():
            raise cluster.NotInstalled(f"there is no {METADATA}: tools/setup test builds it, where Go is new enough")
        (folder / "conf.json").write_text(json.dumps({"metadata": {"values": {"iam-security-credentials": keys}}}))
        port = ["--hostname", "127.0.0.1", "--port", str(ports["plain"])]
        return [str(METADATA), *port, "--imdsv2", "--config-file", str(folder / "conf.json")]

    return Broker("the metadata service", folder, configure, "Initiating ec2-metadata-mock", ("plain",))


def hdfs(folder: Path, certificates: Certificates) -> Broker:
    """An HDFS for anybody, a NameNode at ``plain`` with two DataNodes, in one process."""

    def configure(folder: Path, ports: Ports) -> list[str]:
        settings = {
            "hdfs.minidfs.basedir": str(folder / "data"),
            "dfs.replication": "2",
            # Else a file is often closed half a second late: the NameNode waits for what DataNodes report.
            "dfs.namenode.file.close.num-committed-allowed": "1",
        }
        options = [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]
        numbers = ["-nnport", str(ports["plain"]), "-httpport", str(ports["http"]), "-datanodes", "2", "-format"]
        return cluster.command("hdfs", "org.apache.hadoop.test.MiniDFSClusterManager", *numbers, *options)

    return Broker("HDFS", folder, configure, "Started MiniDFSCluster", ("plain", "http"))


def azurite(folder: Path, certificates: Certificates, *, tls: bool = False) -> Broker:
    """Azure's Blob Storage for ACCOUNT, as Microsoft has it for tests; by TLS it takes tokens, too."""
    more = ["--oauth", "basic", "--cert", str(certificates.chain), "--key", str(certificates.key)] if tls else []

    def configure(folder: Path, ports: Ports) -> list[str]:
        accounts = f"AZURITE_ACCOUNTS={ACCOUNT}:{ACCOUNT_KEY}"
        command = [_program("node", "nodejs"), str(AZURITE), "--blobHost", "127.0.0.1", "--silent"]
        return ["env", accounts, *command, "--blobPort", str(ports["plain"]), "--inMemoryPersistence", *more]

    return Broker("Azurite", folder, configure, "successfully listens", ("plain",))


def azurite_tls(folder: Path, certificates: Certificates) -> Broker:
    """Another one, by TLS, which takes tokens of Entra ID, too, whose signatures it does not check."""
    return azurite(folder, certificates, tls=True)


_MAKERS: Final[tuple[Callable[[Path, Certificates], Broker], ...]] = (
    *(mosquitto, nats, kafka, artemis, rest_catalog, s3proxy, s3mock, metadata, hdfs, azurite, azurite_tls),
)
BROKERS: Final = {make.__name__: make for make in _MAKERS}
"""All of them, by name."""


def _broker_xml(folder: Path, ports: Ports, certificates: Certificates) -> str:
    secure = f"sslEnabled=true;keyStoreType=PEM;keyStorePath={certificates.both};keyStorePassword=none"
    some = "".join(
        f'<permission type="{right}" roles="some"/>'
        for right in (
            "createAddress",
            "createDurableQueue",
            "createNonDurableQueue",
            "deleteNonDurableQueue",
            "consume",
        )
    )
    return f"""<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
      <name>tests</name>
      <persistence-enabled>false</persistence-enabled>
      <journal-directory>{folder}/data</journal-directory>
      <paging-directory>{folder}/data</paging-directory>
      <bindings-directory>{folder}/data</bindings-directory>
      <large-messages-directory>{folder}/data</large-messages-directory>
      <max-disk-usage>100</max-disk-usage>
      <acceptors>
        <acceptor name="plain">tcp://127.0.0.1:{ports["plain"]}?protocols=AMQP,MQTT;securityDomain=Tests;amqpCredits=5;amqpLowCredits=2</acceptor>
        <acceptor name="tls">tcp://127.0.0.1:{ports["tls"]}?protocols=AMQP;securityDomain=Tests;{secure}</acceptor>
      </acceptors>
      <security-settings>
        <security-setting match="#">{some}<permission type="send" roles="some"/></security-setting>
        <security-setting match="refused.#">{some}</security-setting>
      </security-settings>
      <address-settings>
        <address-setting match="#">
          <default-address-routing-type>ANYCAST</default-address-routing-type>
          <default-queue-routing-type>ANYCAST</default-queue-routing-type>
        </address-setting>
        <address-setting match="small">
          <default-address-routing-type>ANYCAST</default-address-routing-type>
          <default-queue-routing-type>ANYCAST</default-queue-routing-type>
          <max-size-messages>2</max-size-messages>
          <address-full-policy>FAIL</address-full-policy>
        </address-setting>
      </address-settings>
    </core></configuration>"""


def _program(name: str, package: str = "") -> str:
    program_path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if program_path is None:
        raise cluster.NotInstalled(f"the tests need {name}: apt-get install {package or name}")
    return program_path
