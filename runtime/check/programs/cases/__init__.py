"""Programs whose outputs must not change under the runtime; see ../outputs.py."""

import importlib.util
from pathlib import Path

WORKLOADS = Path(__file__).resolve().parents[4] / "workloads"


def workload(name: str):
    """The class `Program` of a job of `workloads/`."""
    path = WORKLOADS / name / "program.py"
    spec = importlib.util.spec_from_file_location(f"workload_{name.replace('-', '_')}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Program
