//! docs/HOOKS.md.

use crate::{Entry, HOOKS, Kind};
use std::fmt::Write as _;

const HEAD: &str = "\
# Hooks

<!-- `cargo run --package hooks --example document > docs/HOOKS.md` writes this file; a test compares. -->

The entry points of the CUDA driver that the interposer wraps, by their exact symbols, with the CUDA version that brought
each. A call reaches its wrapper however the program found it: linked directly, `dlsym`, `dlvsym`, `cuGetProcAddress`,
`cuGetProcAddress_v2`. Symbols that end in `_ptsz` or `_ptds` take the null stream as the calling thread's own.
";

/// What stays as it is, and why.
const TAIL: &str = "
## Not wrapped

| symbols | why |
| --- | --- |
| `cuGetExportTable` | the CUDA runtime needs the hidden tables as they are; launches do not go through them (seen: PyTorch) |
| `cuStreamWriteValue*`, `cuStreamWaitValue*`, `cuStreamBatchMemOp*`, `cuStreamWaitEvent` | a few bytes, or waiting without using the device |
| `cuMemAllocAsync`, `cuMemFreeAsync`, `cuMemAlloc*`, `cuMemFree*` | bookkeeping; `cuMemFree` waits for the device, which is noticed a little later |
| `cuGraphUpload` | uploads a graph that is launched later |
| `cuMemDiscardBatchAsync`, `cuMemMapArrayAsync`, `cuStreamAttachMemAsync` | page tables only |
| `cuSignalExternalSemaphoresAsync`, `cuWaitExternalSemaphoresAsync`, `cuGraphicsMapResources`, `cuGraphicsUnmapResources` | order between APIs; no kernel |
| `cuFabricCpyBatchAsync` | copies between machines, since 13.3; not tried |
| `cudaGraphLaunch` from a kernel | a launch of the device itself, no call of the host |
";

const KINDS: [(Kind, &str); 8] = [
    (Kind::Launch, "Launches: work in a stream, admitted first"),
    (Kind::Copy, "Copies and memsets in the default stream, admitted first"),
    (Kind::Wait, "Waits and questions: what they prove complete"),
    (Kind::Begin, "Noted before the call, taken back if it fails"),
    (Kind::Ended, "End of a capture"),
    (Kind::Made, "Noted after success"),
    (Kind::Gone, "Noted before the call"),
    (Kind::Lookup, "Look-ups whose answer is replaced"),
];

fn version(entry: &Entry) -> String {
    format!("{}.{}", entry.since / 1000, entry.since % 1000 / 10)
}

/// The table of all hooks as Markdown.
pub fn document() -> String {
    let mut text = String::from(HEAD);
    for (kind, title) in KINDS {
        let _ = write!(text, "\n## {title}\n\n| symbol | since CUDA |\n| --- | --- |\n");
        for entry in HOOKS.iter().filter(|entry| entry.kind == kind) {
            let _ = writeln!(text, "| `{}` | {} |", entry.name, version(entry));
        }
    }
    text.push_str(TAIL);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/HOOKS.md");
        let text = std::fs::read_to_string(path).expect("docs/HOOKS.md is there");
        assert!(text == document(), "renew it: cargo run --package hooks --example document > docs/HOOKS.md");
    }

    #[test]
    fn every_hook_is_in_it() {
        let text = document();
        for entry in HOOKS {
            assert!(text.contains(&format!("| `{}` |", entry.name)), "{}", entry.name);
        }
    }
}
