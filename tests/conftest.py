"""Makes the benchmark's data and comparison importable: tests and benchmarks share them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
