"""LanceDB is imported without the validators of a client that nothing here calls, and nobody else goes without them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

CODE = """
import sys
from pathlib import Path
import pydantic
from retrieval.lance import connect

tables = connect(Path(sys.argv[1]))
tables.create_table("one", [{"id": "a", "vector": [0.0, 1.0]}])
assert connect(Path(sys.argv[1])).open_table("one").count_rows() == 1

from lance_namespace_urllib3_client.api.table_api import TableApi
assert not hasattr(TableApi.list_tables, "raw_function"), "its calls were given validators: nothing is won"

@pydantic.validate_call
def doubled(number: int) -> int:
    return 2 * number

assert doubled("2") == 4
"""


def test_a_folder_is_opened_without_validators_which_later_calls_have_again(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
