"""Runs one case and writes digests of all its outputs: two runs are equal if these files are.

    python3 outputs.py --case graphs --out result.json [--device cpu --tiny]

A case is a module of `cases/` with `outputs(options)`, which yields names and tensors. Seeds are
fixed and deterministic algorithms are asked for where the case does not say otherwise; whether a
case really repeats itself bit for bit is for the caller to find out by running it twice.
"""

import argparse
import hashlib
import importlib
import json
import os
import sys
from pathlib import Path

# cuBLAS repeats its results only with a fixed workspace (NVIDIA's cuBLAS manual, "Results
# reproducibility"); it reads this when it starts.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parents[2] / "workloads"))
from common.base import Options, seed_everything  # noqa: E402
from common.loops import write_atomically  # noqa: E402

CASES = sorted(path.stem for path in (HERE / "cases").glob("*.py") if path.stem != "__init__")


def digest(tensor: torch.Tensor) -> dict:
    """Shape, type and SHA-256 of the bytes in row-major order."""
    host = tensor.detach().cpu().contiguous()
    data = host.reshape(-1).view(torch.uint8).numpy().tobytes()
    return {
        "shape": list(host.shape),
        "dtype": str(host.dtype),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", choices=CASES, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    seed_everything()
    case = importlib.import_module(f"cases.{args.case}")
    options = Options(device=args.device, tiny=args.tiny)
    found = {name: digest(tensor) for name, tensor in case.outputs(options)}
    if not found:
        raise SystemExit(f"case {args.case} has no outputs")
    result = {
        "case": args.case,
        "torch": torch.__version__,
        "device": args.device,
        "outputs": found,
    }
    write_atomically(args.out, json.dumps(result, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
