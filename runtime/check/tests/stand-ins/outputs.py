"""Stands in for programs/outputs.py: digests of nothing, and others where RUNTIME says so."""

import argparse
import json
import os
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--case")
parser.add_argument("--out", type=Path)
parser.add_argument("--device")
parser.add_argument("--tiny", action="store_true")
args = parser.parse_args()
wrong = os.environ.get("RUNTIME") == args.case
outputs = {"x": {"shape": [1], "dtype": "torch.float32", "sha256": "b" if wrong else "a"}}
args.out.write_text(json.dumps({"outputs": outputs}))
