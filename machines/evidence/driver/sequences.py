"""Brings call sequences of trace.so into the form of runtime/stub/sequences: sequences.py FROM TO.

Handles are numbered from 1 in the order in which a file names them, and a kernel is named on a line of its own before its
first use.
"""

import re
import sys
from pathlib import Path

TITLES = {
    "bert-infer-eager": "BERT-base (random weights), fp16, batch 1 x 384, eager inference: one request after three, then "
    "torch.cuda.synchronize()",
    "bert-infer-eager-result-copy": "the next request of bert-infer-eager; its result goes to the host by .float().cpu() "
    "instead of a synchronisation",
    "bert-infer-graph": "the same model, after three requests in a side stream: capture of one request and three replays, "
    "each with torch.cuda.synchronize()",
    "resnet50-train": "ResNet-50, fp32 (convolutions in TF32, the default), batch 16, SGD: the fourth training step, with "
    "torch.cuda.synchronize()",
    "streams": "two side streams, one of high priority: wait_stream, wait_event, record_stream, query, elapsed_time, "
    "item(); second pass",
    "loader": "DataLoader, two worker processes, pinned memory, non_blocking copies, a small convolution trained for an "
    "epoch of four batches; second epoch",
    "capture-beside-thread": "a graph captured in thread-local mode while another thread trains on its own stream; three "
    "replays; t1 is the other thread",
    "triton": "a Triton kernel (stock launcher), three launches and torch.cuda.synchronize()",
}
KINDS = {"k": "kernel", "f": "function", "u": "unknown"}
DEFINITION = re.compile(r"# kernel (\w+) handle=\w+ name_result=-?\d+ module_result=-?\d+ name=(.*)")


def renumber(lines):
    """The lines of a trace with small numbers, and the definitions."""
    names, numbers, defined, result = {}, {}, set(), []
    calls = []
    for line in lines:
        if definition := DEFINITION.match(line):
            names[definition[1]] = definition[2]
            continue
        if (name := re.search(r" name=(\S*)", line)) and (kernel := re.search(r" kernel=(\w+)", line)):
            names.setdefault(kernel[1], name[1])
        calls.append(re.sub(r" name=\S*", "", line))

    def number(kind, old):
        of_kind = numbers.setdefault(kind, {})
        return of_kind.setdefault(old, len(of_kind) + 1)

    for line in calls:
        definitions = []

        def replace(match, definitions=definitions):
            key, old = match[1], match[2]
            if key in ("kernel", "function"):
                new = old[0] + str(number(old[0], old))
                if new not in defined:
                    defined.add(new)
                    definitions.append(f"{KINDS[old[0]]} {new} {names.get(old) or '-'}")
                return f" {key}={new}"
            # The default streams keep their names.
            if key == "stream" and (old == "0" or not old.isdigit()):
                return match[0]
            return f" {key}={number(key, old)}"

        line = re.sub(r" (kernel|function|stream|event|graph|exec)=(\w+)", replace, line)
        line = re.sub(r"^t(\d+)", lambda match: f"t{number('thread', match[1])}", line)
        result += [*definitions, line]
    return result


def main(source, target):
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.rglob("*.txt")):
        if path.stem in TITLES:
            lines = ["# calls 1", f"# {TITLES[path.stem]}", *renumber(path.read_text().splitlines())]
            (target / path.name).write_text("\n".join(lines) + "\n")


main(Path(sys.argv[1]), Path(sys.argv[2]))
