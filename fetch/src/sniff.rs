//! Tells from the first bytes of an answer that it isn't the file.

use crate::fault::Fault;

/// How many first bytes are looked at.
pub const LOOKED_AT: usize = 4096;

const GZIP: &[u8] = &[0x1f, 0x8b];
const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
/// "Rar!" and what makes it version 5; version 4 has 00 where this has 01 00.
pub const RAR5: &[u8] = &[0x52, 0x61, 0x72, 0x21, 0x1a, 0x07, 0x01, 0x00];

/// What the first bytes give away, if anything. `content_type` is the header of that name.
pub fn not_the_file(first: &[u8], content_type: &str) -> Option<Fault> {
    if first.starts_with(POINTER) {
        return Some(Fault::Pointer);
    }
    if first.starts_with(GZIP) {
        return Some(Fault::Encoded { how: "gzip, which it doesn't say".to_owned() });
    }
    let begin =
        String::from_utf8_lossy(first).trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).to_string();
    let lower = begin.to_ascii_lowercase();
    let html = ["<!doctype html", "<html", "<head", "<body"].iter().any(|tag| lower.starts_with(tag));
    let says_html = content_type.to_ascii_lowercase().starts_with("text/html");
    (html || says_html).then(|| Fault::Html { title: title(&begin, &lower) })
}

/// The page's title, on one line.
fn title(text: &str, lower: &str) -> Option<String> {
    let open = lower.find("<title")?;
    let from = open + lower[open..].find('>')? + 1;
    let to = from + lower[from..].find("</title")?;
    let title = one_line(text.get(from..to)?);
    (!title.is_empty()).then_some(title)
}

/// Text of a stranger, safe to print: no control characters, single spaces, at most 100 characters.
pub fn one_line(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(100) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(first: &[u8], content_type: &str) -> String {
        not_the_file(first, content_type).map(|fault| fault.to_string()).unwrap_or_default()
    }

    #[test]
    fn data_pass() {
        assert_eq!(message(b"app,func,end_timestamp,duration\n", "text/plain"), "");
        assert_eq!(message(RAR5, "application/octet-stream"), "");
        assert_eq!(message(b"", ""), "");
    }

    #[test]
    fn pages_are_told_with_their_title() {
        let page = b"\xef\xbb\xbf \n<!DOCTYPE html>\n<html><head><TITLE>\n Sign\x1b[31m in </title>";
        assert_eq!(message(page, "text/plain"), "an HTML page instead of data (its title: \"Sign [31m in\")");
        assert_eq!(message(b"oops", "text/html; charset=utf-8"), "an HTML page instead of data");
        assert_eq!(message(b"<html><title>unfinished", ""), "an HTML page instead of data");
    }

    #[test]
    fn pointers_and_compressed_bodies_are_told() {
        assert!(
            message(b"version https://git-lfs.github.com/spec/v1\noid sha256:12\n", "").contains("pointer")
        );
        assert!(message(&[0x1f, 0x8b, 8, 0], "").contains("re-encoded body (gzip"));
    }

    #[test]
    fn long_titles_are_cut_at_a_character() {
        let page = format!("<html><title>{}</title>", "ä".repeat(300));
        assert!(message(page.as_bytes(), "").contains(&format!("\"{}...\"", "ä".repeat(100))));
    }
}
