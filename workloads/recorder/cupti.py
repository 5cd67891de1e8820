"""Builds, loads and wraps the C library that talks to CUPTI."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("cupti_trace.c")
RECORDS = {
    "KERNEL_RECORD": "CUpti_ActivityKernel",
    "MEMCPY_RECORD": "CUpti_ActivityMemcpy",
    "MEMSET_RECORD": "CUpti_ActivityMemset",
}


def loaded_library(stem: str) -> Path | None:
    """The file that this process has mapped for a library, if any."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if Path(path).name.startswith(stem + ".so"):
            return Path(path)
    return None


def toolkits() -> list[Path]:
    """Installed CUDA toolkits: the one that is asked for, the one on the path, the usual place."""
    found = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    compiler = shutil.which("nvcc")
    if compiler is not None:
        found += [Path(compiler).parents[1], Path(compiler).resolve().parents[1]]
    return found + sorted(Path("/usr/local").glob("cuda*"), reverse=True)


def include_folders() -> list[Path]:
    """Folders with the headers, those next to the loaded CUPTI first."""
    folders = []
    loaded = loaded_library("libcupti")
    if loaded is not None:
        folders.append(loaded.parent.parent / "include")
    for entry in map(Path, sys.path):
        folders += sorted(entry.glob("nvidia/*/include"))
    for toolkit in toolkits():
        folders += [toolkit / "extras/CUPTI/include", toolkit / "include"]
        folders += sorted(toolkit.glob("targets/*/include"))
    return list(dict.fromkeys(f for f in folders if f.is_dir()))


def newest(header: str, stem: str) -> str:
    """The record struct with the highest version in the header without deprecated ones."""
    versions = [int(v) for v in re.findall(rf"\}}\s*{stem}(\d+)\s*;", header)]
    if not versions:
        raise RuntimeError(f"no {stem} in cupti_activity.h")
    return f"{stem}{max(versions)}"


def build(folder: Path) -> Path:
    """Compiles the library into `folder`; reuses one that is newer than the source."""
    library = folder / "libcupti_trace.so"
    if library.exists() and library.stat().st_mtime > SOURCE.stat().st_mtime:
        return library
    includes = include_folders()
    headers = [f / "cupti_activity.h" for f in includes if (f / "cupti_activity.h").exists()]
    if not headers:
        raise RuntimeError(f"no cupti_activity.h in {[str(f) for f in includes]}")
    folder.mkdir(parents=True, exist_ok=True)
    partial = library.with_suffix(".partial")
    errors = []
    for header in headers:
        text = header.read_text()
        # The folder of the CUPTI headers goes first: they must not mix with another release's.
        order = [header.parent, *(f for f in includes if f != header.parent)]
        command = ["gcc", "-O2", "-fPIC", "-shared", str(SOURCE), "-o", str(partial)]
        for macro, stem in RECORDS.items():
            command.append(f"-D{macro}={newest(text, stem)}")
        command += [f"-I{f}" for f in order]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            partial.replace(library)
            return library
        errors.append(f"with {header}: {done.stderr[:1500]}")
    raise RuntimeError("gcc failed " + "\n".join(errors))


def find_cupti() -> Path:
    """libcupti as loaded by the framework, or beside the headers that are there."""
    loaded = loaded_library("libcupti")
    if loaded is not None:
        return loaded
    for folder in include_folders():
        for lib in ("lib", "lib64"):
            found = sorted((folder.parent / lib).glob("libcupti.so.*"))
            if found:
                return found[0]
    raise RuntimeError("no libcupti found")


class Cupti:
    """The C library, loaded; every call raises when CUPTI reports an error."""

    def __init__(self, library: Path):
        # The C library names its symbols only; make the copies in use visible to it.
        ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
        self.cupti_path = find_cupti()
        ctypes.CDLL(str(self.cupti_path), mode=ctypes.RTLD_GLOBAL)
        self.lib = ctypes.CDLL(str(library))
        self.lib.trace_now.restype = ctypes.c_uint64
        self.lib.trace_lost.restype = ctypes.c_uint64
        for dump in (self.lib.trace_dump, self.lib.survey_dump):
            dump.restype = ctypes.c_long
            dump.argtypes = [ctypes.c_char_p]

    def call(self, name: str) -> None:
        code = getattr(self.lib, name)()
        if code:
            raise RuntimeError(f"{name} failed with CUPTI error {code}")

    def now(self) -> int:
        return self.lib.trace_now()

    def lost(self) -> int:
        return self.lib.trace_lost()

    def dump(self, name: str, path: Path) -> int:
        rows = getattr(self.lib, name)(str(path).encode())
        if rows < 0:
            raise RuntimeError(f"{name} could not write {path.name}")
        return rows
