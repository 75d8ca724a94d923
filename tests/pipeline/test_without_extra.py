"""The package without what ``signalbook[pipeline]`` installs: definitions can be read, and what is missing is named."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "orders"
# A finder that knows none of the extra's packages, in front of all others.
BLOCKED = """
import sys

EXTRA = {"numpy", "pandas", "prometheus_client", "py4j", "pyarrow", "pyiceberg", "pyspark"}

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRA:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""
MAIN = f"{BLOCKED}from signalbook.cli import main; main()"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", *command], capture_output=True, text=True, check=False)


def test_messages_are_made_of_definitions() -> None:
    ran = run(MAIN, "message", "inputs", "shop.order.placed", "--registry", str(EXAMPLES))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "shop" in ran.stdout


def test_missing_extra_is_reported(tmp_path: Path) -> None:
    ran = run(MAIN, "pipeline", "run", "--registry", str(EXAMPLES), "--input", "x", "--output", str(tmp_path / "lake"))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "pip install ./native '.[pipeline]'" in ran.stderr
    assert not (tmp_path / "lake").exists()


def test_a_missing_package_is_an_error_of_the_pipeline() -> None:
    program = f"""{BLOCKED}
from signalbook.pipeline import PipelineError
try:
    from signalbook.pipeline import run
except PipelineError as error:
    print(error)
"""
    words = r"the pipeline needs \w+: pip install ./native '.\[pipeline\]' in a clone of Signalbook\n"
    assert re.fullmatch(words, run(program).stdout)


def test_importing_the_package_loads_no_more_than_is_asked_for() -> None:
    program = 'import sys, signalbook.pipeline; print(sorted({"pyarrow", "pyiceberg", "pyspark"} & {*sys.modules}))'
    assert run(program).stdout == "[]\n"


def test_dataframes_do_without_data_sources_in_python() -> None:
    """Spark has these from 4.0 on, and brokers alone need them."""
    program = (
        "import sys; sys.modules['pyspark.sql.datasource'] = None; "
        "from signalbook.pipeline import Contract, land, register, typed, validate; print(land.__module__)"
    )
    ran = run(program)
    assert (ran.returncode, ran.stdout) == (0, "signalbook.pipeline.frames.landing\n"), ran.stderr
