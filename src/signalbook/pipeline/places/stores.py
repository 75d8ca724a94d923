"""Places in object stores, accessed by obstore: Amazon S3 and compatible stores, Google Cloud Storage, and Azure.

obstore repeats failed requests with growing pauses; this module repeats requests whose response ends early. A repeated
conditional write may find the object that its own first attempt has written. Contents are unique, so a comparison of
the contents recognises this case.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, TypeVar, cast

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places.base import Output, Place, Ranges, RemotePlace, Stored, Upload
from signalbook.pipeline.places.settings import Storage
from signalbook.plugins import install

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

SCHEMES: Final = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "az": "az",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
}
"""The supported URL schemes, each with the kind of store that it stands for."""

_Answer = TypeVar("_Answer")
_RETRIES: Final = {"max_retries": 8, "retry_timeout": timedelta(seconds=90)}
# The text of obstore's error for a response that ended early, and the seconds to wait before each retry.
_CUT: Final = "request or response body error"
_PAUSES: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
# The text of its error for a connection timeout. obstore repeats such requests unless they are conditional.
_UNCONNECTED: Final = re.compile(r"kind: Timeout,.*\bConnect,", re.DOTALL)
_PART: Final = 8 * 1024 * 1024
# The query parameters of signed URLs of Azure, Amazon and Google, which grant access to an object.
_SIGNED: Final = re.compile(r"[?&](?:sig|X-Amz-Signature|X-Goog-Signature)=")
# The status in an error's text, which has many other parts, such as the signed request.
_STATUS: Final = re.compile(r"status code: (\d+ [A-Za-z ]+)")
# Likely meanings of a status without a reason, as in responses to HEAD requests.
_SILENT: Final = {"400": "without a reason; the token that came with the keys may have ended"}
# The error codes of stores and of Entra ID. Other token services have only the codes of OAuth.
_CODE: Final = re.compile(r"<Code>(\w+)</Code>|\b(AADSTS\d+)")
_OAUTH_CODE: Final = re.compile(r"\"error\": *\"(\w+)\"")
# The coloured arrow before each cause in the error texts of delta-rs.
_CAUSE: Final = re.compile(r"\s*(?:\x1b\[[\d;]*m)?↳(?:\x1b\[[\d;]*m)?\s*")
_LOST: Final = re.compile(r"error sending request|HTTP error|connection|timed? ?out", re.IGNORECASE)
# Services that are queried for credentials before the store: a pattern of the failed request, and the name to report.
_ASKED: Final = (
    (
        re.compile(
            r"performing \w+ \S*(?:/latest/(?:api/token|meta-data/)|/computeMetadata/|//169\.254\.169\.254|"
            r"[?&]resource=https%3A%2F%2Fstorage\.azure\.com)"
        ),
        "no credentials are set, and the metadata service of this machine",
    ),
    (re.compile(r"performing POST \S*/oauth2/(?:v2\.0/)?token"), "the service that gives tokens"),
    (re.compile(r"performing POST REDACTED"), "the service that gives credentials for a web identity"),
    (re.compile(r"performing GET \S*//169\.254\.170\.2"), "what gives this container its credentials"),
)
_NO_TLS: Final = re.compile(r"HTTP error: builder error")
_OWN_WORDS: Final = re.compile(r"External (?:AWS|GCP) credential provider: OSError: (.+)")


@dataclass(frozen=True, slots=True)
class StorePlace(RemotePlace):
    """The object with the key ``path`` in the store at ``root``, or the folder of all objects below this key."""

    @classmethod
    def of(cls, url: str, storage: Storage) -> StorePlace:
        """Return the place of ``url``.

        Raises ``PipelineError`` for a URL without a bucket, with credentials, or with parts that no key can have.
        """
        scheme, _, remainder = url.partition("://")
        bucket, _, key = remainder.partition("/")
        parts = key.rstrip("/").split("/") if key.rstrip("/") else []
        account = bucket.rpartition("@")[0]
        if _SIGNED.search(remainder) or ":" in account or (account and SCHEMES[scheme.lower()] != "az"):
            raise PipelineError(  # the text omits the URL, which may contain secrets
                f"a {scheme}: URL with credentials is not taken, for it is shown and kept: give them in the "
                "environment, or in the section storage of the job"
            )
        if not bucket:
            raise PipelineError(f"{url} names no bucket: write {scheme}://BUCKET/FOLDER")
        if any(part in ("", ".", "..") for part in parts):
            raise PipelineError(f"{url} has an empty part, '.' or '..', which objects cannot be found by")
        if SCHEMES[scheme.lower()] == "az" and scheme.lower() in ("abfs", "abfss") and "@" not in bucket:
            raise PipelineError(f"{url}: write {scheme}://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER")
        return cls(f"{scheme.lower()}://{bucket}", "/".join(parts), storage)

    @property
    def _store(self) -> ObjectStore:
        return connect(self.root, self.settings)

    def read(self) -> bytes:
        """Return the content of the object, read in one request."""
        return self._request(lambda store: store.get(self.path).bytes().to_bytes())

    def open(self) -> BinaryIO:
        """Return the opened object. Each read of the returned file is one request."""
        return cast("BinaryIO", Ranges(self._read_range, self.find_size(), str(self)))

    def _read_range(self, start: int, end: int) -> bytes:
        return self._request(lambda store: store.get_range(self.path, start=start, end=end).to_bytes())

    def open_output(self) -> Output:
        """Return an output that is a temporary file without a name. ``finish`` uploads it, in parts if it is large."""
        return Upload(self.upload, _PART)

    def find_size(self) -> int:
        """Return the size of the object."""
        with self._convert_errors():
            return int(self._store.head(self.path)["size"])

    def replace(self, content: bytes) -> None:
        """Write ``content`` unconditionally."""
        self.upload(content)

    def upload(self, content: bytes | BinaryIO) -> None:
        """Upload ``content``. An open file is read from its beginning and uploaded in parts."""

        def put(store: ObjectStore) -> None:
            if not isinstance(content, bytes):
                content.seek(0)
            store.put(self.path, content, chunk_size=_PART, max_concurrency=4)

        self._request(put)

    def create(self, content: bytes) -> bool:
        """Create the object with ``If-None-Match: *``. Return False if it exists with another content."""
        return self._put(content, "create")

    def read_tagged(self) -> tuple[bytes, str]:
        """Return content and tag. The tag is ``ETag`` and version, because stores differ in which of them they use."""

        def get(store: ObjectStore) -> tuple[bytes, str]:
            response = store.get(self.path)
            return response.bytes().to_bytes(), f"{response.meta['e_tag'] or ''}\n{response.meta['version'] or ''}"

        return self._request(get)

    def swap(self, content: bytes, tag: str) -> bool:
        """Replace the object with ``If-Match``, or the store's own condition.

        Return False if the object has another tag and another content.
        """
        seen = dict(zip(("e_tag", "version"), tag.split("\n"), strict=False))
        return self._put(content, {name: value for name, value in seen.items() if value})

    def _put(self, content: bytes, mode: Literal["create"] | dict[str, str]) -> bool:
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._convert_errors():
            try:
                retry(lambda: self._store.put(self.path, content, mode=cast("Any", mode)), conditional=True)
            except (AlreadyExistsError, PreconditionError):
                pass  # another client wrote the object, or our first attempt did and its response was lost
            else:
                return True
        return self._has(content)

    def list_files(self, *, deep: bool = False) -> Iterator[Stored]:
        """Yield the objects below this place, or directly below it without ``deep``. A request lists a thousand."""
        skipped = len(self.path) + 1 if self.path else 0
        prefix = self.path or None

        def flat(store: ObjectStore) -> Iterable[ObjectMeta]:
            return store.list_with_delimiter(prefix)["objects"]

        for entry in self._iterate_below(prefix) if deep else self._request(flat):
            modified = int(entry["last_modified"].timestamp() * 1_000_000) * 1000
            yield Stored(entry["path"][skipped:], int(entry["size"]), modified)

    def _iterate_below(self, prefix: str | None) -> Iterator[ObjectMeta]:
        """Yield all objects. If a response ends early, continue after the last object if all were in order of keys."""
        from obstore.exceptions import BaseError

        last, ordered, tries = "", True, 0
        while True:
            with self._convert_errors():
                try:
                    for chunk in self._store.list(prefix, offset=last or None):
                        for entry in chunk:
                            ordered = ordered and last < entry["path"]
                            last, tries = entry["path"], 0
                            yield entry
                except BaseError as error:
                    if _CUT not in str(error) or not ordered or tries == len(_PAUSES):
                        raise
                else:
                    return
            time.sleep(_PAUSES[tries])
            tries += 1

    def list_folders(self) -> list[str]:
        """Return the names of the folders directly below this place, in order."""
        prefixes = self._request(lambda store: store.list_with_delimiter(self.path or None)["common_prefixes"])
        return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in prefixes)

    def make(self) -> None:
        """Do nothing: a key needs no folder."""

    def move(self, to: Place) -> None:
        """Copy the object to ``to`` within the store, then delete it here."""
        assert isinstance(to, StorePlace)
        assert to.root == self.root
        path = to.path
        self._request(lambda store: store.copy(self.path, path))
        self.delete()

    def delete(self) -> None:
        """Delete the object, if it exists."""
        self._delete([self.path])

    def clear(self) -> None:
        """Delete all objects below this place. Objects that cannot be deleted stay; no ``OSError`` is raised."""
        try:
            self._delete([f"{self.path}/{file.path}" for file in self.list_files(deep=True)])
        except OSError:  # as with folders, the next call removes the rest
            return

    def _delete(self, keys: list[str]) -> None:
        if not keys:
            return
        try:
            self._request(lambda store: store.delete(keys if len(keys) > 1 else keys[0]))
        except FileNotFoundError:  # some stores raise this error if one of the objects is missing
            if len(keys) > 1:
                for key in keys:
                    self._delete([key])

    def _request(self, request: Callable[[ObjectStore], _Answer]) -> _Answer:
        """Return the result of ``request``, which may be called repeatedly. Raises ``OSError``."""
        with self._convert_errors():
            return retry(lambda: request(self._store))

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert errors raised in the context to ``OSError`` with short texts without secrets."""
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as error:
            if _CODE.search(str(error)) is not None and "NoSuchBucket" in str(error):
                raise self._build_error("there is no such bucket") from None
            raise FileNotFoundError(errno.ENOENT, "not there", str(self)) from None
        except BaseError as error:
            raise self._build_error(self.settings.mask(shorten_error(str(error)))) from None
        except TimeoutError as error:
            raise self._build_error("the store does not answer") from error

    def _build_error(self, words: str) -> OSError:
        return OSError(errno.EIO, words, str(self))


def retry(ask: Callable[[], _Answer], *, conditional: bool = False) -> _Answer:
    """Return the result of ``ask``, which sends a request by obstore or delta-rs. Repeat it after errors that may pass.

    The libraries themselves retry after an incomplete response only for long contents, and after a failed connection
    only for unconditional requests. ``conditional`` must be True if the request is conditional.
    """
    for pause in _PAUSES:
        try:
            return ask()
        except Exception as error:
            words = str(error)
            if _CUT not in words and not (conditional and _UNCONNECTED.search(words)):
                raise
        time.sleep(pause)
    return ask()


def shorten_error(text: str) -> str:
    """Return the text of an obstore or delta-rs error as one line, without the data that was sent."""
    text = _CAUSE.sub(": ", text)
    status, code = _STATUS.search(text), _CODE.search(text) or _OAUTH_CODE.search(text)
    first = text.partition("\n")[0]
    who = next((words for request, words in _ASKED if request.search(first)), "the store")
    if status is not None:
        why = code[code.lastindex or 0] if code else _SILENT.get(status[1].partition(" ")[0], "")
        return f"{who} answers {status[1].strip()}{f' ({why})' if why else ''}"
    own_text = _OWN_WORDS.search(first)
    if own_text is not None:
        return own_text[1]
    if _NO_TLS.search(first):
        return f"{who} has a URL that is not https"
    return f"{who} does not answer" if _LOST.search(first) else first


@lru_cache(maxsize=64)
def connect(root: str, storage: Storage) -> ObjectStore:
    """Return the client of the store ``root``, cached with its connections. Raises ``PipelineError``."""
    try:
        # Import the whole package first: another thread may have defined its classes, but not yet what they call.
        import obstore  # noqa: F401
        from obstore.exceptions import BaseError
        from obstore.store import S3Store, from_url
    except ModuleNotFoundError as error:
        raise PipelineError(f"{root} needs {error.name}: {install('pipeline')}") from error
    kind = SCHEMES[root.partition(":")[0]]
    config, client = storage.build_obstore_options(kind, root)
    options: Any = {"config": config, "client_options": client, "retry_config": _RETRIES}
    options["credential_provider"] = storage.find_credential_provider(kind)
    try:
        return S3Store(root.partition("://")[2], **options) if kind == "s3" else from_url(root, **options)
    except (BaseError, ValueError) as error:
        raise PipelineError(f"{root} cannot be used: {storage.mask(shorten_error(str(error)))}") from None
