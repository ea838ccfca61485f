"""The page of metrics is what the catalogue says."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_the_page_of_metrics_is_made_out_of_the_catalogue() -> None:
    command = [str(ROOT / "scripts" / "generate-metrics-docs"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
