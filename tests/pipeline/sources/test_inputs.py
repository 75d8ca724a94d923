"""Input is found, cut and dealt out evenly."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.pipeline.s3 import KINDS, place

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import LocalPlace, Storage, StorePlace, place_of
from signalbook.pipeline.sources.avro import CONTAINER
from signalbook.pipeline.sources.base import FileSource
from signalbook.pipeline.sources.files import BATCH, JSONL
from signalbook.pipeline.sources.inputs import LARGEST_TASK, find_files, plan_tasks

MB = 1024 * 1024


def sizes(tasks: tuple[tuple[object, ...], ...]) -> list[int]:
    return [sum(split.size for split in task) for task in tasks]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("files", "parallelism", "expected"),
    [
        ([("a", 100 * MB)], 2, [50 * MB, 50 * MB]),
        ([("a", 10 * MB)], 4, [10 * MB]),
        ([("a", 100 * MB), ("b", 4 * MB), ("c", 4 * MB)], 2, [50 * MB, 58 * MB]),
        ([("a.gz", 100 * MB), ("b", 20 * MB)], 2, [100 * MB, 20 * MB]),
        ([("a", 0), ("b", 0)], 2, []),
        ([("a", 4 * LARGEST_TASK)], 2, [LARGEST_TASK] * 4),
    ],
)
def test_tasks_are_even(files: list[tuple[str, int]], parallelism: int, expected: list[int]) -> None:
    assert sizes(plan_tasks(JSONL, files, parallelism)) == expected


def test_arrays_are_not_cut() -> None:
    assert sizes(plan_tasks(BATCH, [("a", 100 * MB)], 4)) == [100 * MB]


def test_many_small_files_share_a_task() -> None:
    tasks = plan_tasks(JSONL, [(f"f{n:04d}", MB) for n in range(200)], 2)
    assert max(sizes(tasks)) <= 111 * MB
    assert sum(sizes(tasks)) == 200 * MB


def names(*inputs: str, source: FileSource = JSONL, storage: Storage | None = None) -> list[str]:
    """The names of the files that are found, below the first input if that is a folder or a URL."""
    files = find_files(inputs, source, storage).files
    return [path.removeprefix(inputs[0]).lstrip("/") for path, _ in files]


@pytest.mark.parametrize("text", ["{0}", "{0}/*.jsonl", "file://{0}", "{0}/**/a.jsonl"])
def test_inputs_are_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.jsonl", "sub/a.jsonl", ".hidden", "_marker"):
        (tmp_path / name).write_text("x\n")
    files = find_files([text.format(tmp_path)], JSONL).files
    assert (str(tmp_path / "a.jsonl"), 2) in files
    assert {Path(path).name for path, _ in files} == {"a.jsonl"}


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert len(find_files([str(tmp_path), str(tmp_path / "a")], JSONL).files) == 1


@pytest.mark.parametrize("text", ["/nowhere", "/nowhere/*.jsonl"])
def test_missing_input_is_an_error(text: str) -> None:
    with pytest.raises(PipelineError, match="is not there"):
        find_files([text], JSONL)


def test_a_pipe_is_no_input(tmp_path: Path) -> None:
    """Tasks read parts of a file, and read them again when they are repeated."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PipelineError, match="is a pipe or device"):
        find_files([str(tmp_path / "pipe")], JSONL)


@pytest.mark.parametrize("text", ["", "a\0b"])
def test_invalid_path_is_rejected(text: str) -> None:
    """The value of an unset variable is an empty text, which used to mean the working folder."""
    with pytest.raises(PipelineError, match="is no path"):
        find_files([text], JSONL)


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="holds no files"):
        find_files([str(tmp_path)], JSONL)


@pytest.mark.parametrize("text", ["webhdfs://namenode/in", "dbfs:/in", "ftp://host/in"])
def test_unsupported_url_is_an_error(text: str) -> None:
    with pytest.raises(PipelineError, match="is not supported"):
        find_files([text], JSONL)


# What Spark, Hadoop and Databricks leave beside the files they write, and what else is in such folders.
READ = [
    *("a.jsonl", "b.JSON", "c.jsonl.gz", "d.jsonl.zst", "events.jsonl.1", "part-0.c000.json", "part-00000"),
    "sub/x.ndjson",
]
OTHERS = [
    *("_SUCCESS", "_committed_4711", "_started_4711", ".a.jsonl.crc", "_temporary/0/part-0.json", ".git/config.json"),
    *("a.jsonl.crc", "readme.txt", "d.csv", "e.jsonl.lz4", "f.parquet"),
]


@pytest.fixture(params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Storage | None]:
    """A folder, on disk and in stores, with files to read and others."""
    home = place(request.param, tmp_path, request)
    for name in (*READ, *OTHERS):
        if isinstance(home, LocalPlace):
            (home.path / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write(b"{}\n")
    return str(home), home.storage if isinstance(home, StorePlace) else None


def test_other_files_of_a_folder_are_skipped(folder: tuple[str, Storage | None]) -> None:
    """The number of skipped files is reported; they can be read by their name or by a glob."""
    home, storage = folder
    assert names(home, storage=storage) == sorted(READ)
    (notice,) = find_files([home], JSONL, storage).notices
    assert "11 files are skipped (6 hidden, 1 ." in notice
    assert ".json, .jsonl, .jsonlines, .ndjson" in notice
    assert names(f"{home}/readme.txt", storage=storage) == [""]
    assert names(home, f"{home}/*.txt", storage=storage) == sorted([*READ, "readme.txt"])
    assert names(home, f"{home}/_*", storage=storage) == sorted([*READ, "_SUCCESS", "_committed_4711", "_started_4711"])
    assert [path.rpartition("/")[2] for path in names(f"{home}/**/*.ndjson", storage=storage)] == ["x.ndjson"]
    assert [path.rpartition("/")[2] for path in names(f"{home}/[a-b].*", storage=storage)] == ["a.jsonl", "b.JSON"]
    with pytest.raises(PipelineError, match=r"nothing in the input .* is read: 1 file is skipped.*name a file"):
        names(f"{home}/sub", source=CONTAINER, storage=storage)
    for nothing in (f"{home}/none", f"{home}/none/*.jsonl"):
        with pytest.raises(PipelineError, match="is not there"):
            names(nothing, storage=storage)


def test_globs_mean_the_same_on_disk_and_in_stores(folder: tuple[str, Storage | None]) -> None:
    """A final ``**`` matches everything below, and a text that is the name of an existing file is not a glob."""
    home, storage = folder
    for name in ("x[1]/y[2].jsonl", "deep/2026/01/d.jsonl", "deep/e.jsonl"):
        file = place_of(home, storage) / name
        file.parent.make()
        file.write(b"{}\n")

    def ends(glob: str) -> list[str]:
        return [path.removeprefix(f"{home}/") for path, _ in find_files([f"{home}/{glob}"], JSONL, storage).files]

    assert ends("deep/**") == ends("d**/**") == ["deep/2026/01/d.jsonl", "deep/e.jsonl"]
    assert ends("**/2026/**") == ends("deep/**/0[!2]/**/*") == ["deep/2026/01/d.jsonl"]
    assert ends("deep/?.jsonl") == ["deep/e.jsonl"]
    assert names(f"{home}/x[1]/", storage=storage) == names(f"{home}/x[1]", storage=storage) == ["y[2].jsonl"]
    assert ends("x[1]/y[2].jsonl") == ends("x[[]1]/*") == ["x[1]/y[2].jsonl"]
    with pytest.raises(PipelineError, match="is not there"):
        ends("deep[!x]e.jsonl")


@pytest.mark.parametrize("name", ["x[1]", "a*b", "what?"])
def test_a_working_folder_is_no_glob(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / name
    (home / "in").mkdir(parents=True)
    (home / "in" / "a.jsonl").write_text("x")
    monkeypatch.chdir(home)
    for text in ("in/*.jsonl", "*/a.*", "**", f"{home}/in/?.jsonl"):
        assert find_files([text], JSONL).files == ((str(home / "in" / "a.jsonl"), 1),)


def test_unreadable_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may run as root, who may list everything."""

    def walk(_: Path, onerror: Callable[[OSError], None]) -> list[tuple[str, list[str], list[str]]]:
        onerror(PermissionError(errno.EACCES, "Permission denied", "sub"))
        return []

    monkeypatch.setattr(os, "walk", walk)
    with pytest.raises(PipelineError, match=r"cannot read the input .*Permission denied"):
        find_files([str(tmp_path)], JSONL)
