"""Public catalogues of definitions, whole and as they are: what is usable, and what becomes of their test data.

Google's CloudEvents: each file of test data is an event of each type that may have it, as ProtoJSON and in binary, by
itself and in a run of the pipeline, and under the catalogue's JSON Schemas; google.protobuf.json_format and jsonschema
say what has to come of it. Iglu Central: each JSON Schema is imported, parsed, and most have columns.

    git clone https://github.com/googleapis/google-cloudevents && git clone https://github.com/snowplow/iglu-central
    python -m tests.catalogues --google google-cloudevents --iglu iglu-central
"""

import argparse
import json
import sys
import time
from pathlib import Path

from tests.catalogues import judging


def main() -> None:
    """Print the figures of the catalogues that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--google", type=Path, help="a checkout of google-cloudevents")
    parser.add_argument("--iglu", type=Path, help="a checkout of iglu-central")
    options = parser.parse_args()
    for name, judge, root in (
        ("google, Protobuf", judging.by_protobuf, options.google),
        ("google, through the pipeline", judging.by_pipeline, options.google),
        ("google, JSON Schema", judging.by_json_schema, options.google),
        ("iglu", judging.by_iglu, options.iglu),
    ):
        if root is not None:
            began = time.perf_counter()
            counts = judge(root)
            sys.stdout.write(f"{name} ({time.perf_counter() - began:.1f} s): {json.dumps(counts)}\n")
    if options.google is None and options.iglu is None:
        sys.exit("name a checkout: --google DIR, --iglu DIR")


if __name__ == "__main__":
    main()
