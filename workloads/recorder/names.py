"""Readable kernel names of bounded length that stay unique."""

import hashlib
import shutil
import subprocess

LIMIT = 120
NOISE = ("void ", "at::native::", "(anonymous namespace)::", "at::cuda::", "c10::")


def demangle(names: list[str]) -> dict[str, str]:
    """Maps every name to its demangled form, or to itself without c++filt."""
    tool = shutil.which("c++filt")
    if tool is None or not names:
        return {n: n for n in names}
    done = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != len(names):
        return {n: n for n in names}
    return dict(zip(names, lines, strict=True))


def shorten(names: list[str]) -> dict[str, str]:
    """Maps mangled names to short ones; a cut name ends in a hash of the whole."""
    short = {}
    for mangled, name in demangle(sorted(set(names))).items():
        for noise in NOISE:
            name = name.replace(noise, "")
        if len(name) > LIMIT:
            digest = hashlib.sha256(mangled.encode()).hexdigest()[:8]
            name = f"{name[: LIMIT - 9]}~{digest}"
        short[mangled] = name
    return short
