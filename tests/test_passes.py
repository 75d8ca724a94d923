"""A batch passes few modules on its way to rows: a stranger who follows it has to read each of them."""

import pytest
from tools.passes import list_modules_of_records

MAX_MODULES = {"signalbook.pipeline.processing.": 12, "signalbook.pipeline.": 18}


@pytest.mark.parametrize("mode", ["structured_json", "binary_json_beside_plain", "prefixed_avro_mixed", "plain_json"])
def test_a_batch_passes_few_modules(mode: str) -> None:
    modules = list_modules_of_records(mode, 1_000)
    for package, limit in MAX_MODULES.items():
        passed = sorted(name for name in modules if name.startswith(package))
        assert len(passed) <= limit, passed
