//! Markdown of our own tables, as a part of the page.
//!
//! Written here and not by the parser's HTML writer, because that passes raw HTML on, and because a table needs a box to
//! scroll in and heads with a scope.

use maud::{Escaper, Markup, PreEscaped};
use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use std::fmt::Write as _;

use super::table::{boxed, text_class};

/// The text as HTML. Its first heading is left out where the page has its own; others go below `level`. `label` is read
/// out for its tables.
pub fn view(markdown: &str, label: &str, level: u8) -> Markup {
    let mut writer =
        Writer { out: String::new(), cell: 0, count: 0, tables: Vec::new(), links: Vec::new(), level };
    let mut events: Vec<Event> = Parser::new_ext(markdown, Options::ENABLE_TABLES).collect();
    drop_title(&mut events);
    for event in events {
        writer.event(event, label);
    }
    PreEscaped(writer.out)
}

fn drop_title(events: &mut Vec<Event>) {
    let is_title = |tag: &Event| matches!(tag, Event::Start(Tag::Heading { level: HeadingLevel::H1, .. }));
    let is_end = |tag: &Event| matches!(tag, Event::End(TagEnd::Heading(HeadingLevel::H1)));
    if let (Some(from), Some(to)) = (events.iter().position(is_title), events.iter().position(is_end)) {
        events.drain(from..=to);
    }
}

struct Writer {
    out: String,
    /// Where the cell under way begins.
    cell: usize,
    /// How many tables there were.
    count: usize,
    /// The table under way; none is inside another.
    tables: Vec<Grid>,
    /// Of the open links, whether each was written.
    links: Vec<bool>,
    level: u8,
}

/// What is known of a table under way.
struct Grid {
    /// What came before it.
    before: String,
    aligns: Vec<Alignment>,
    column: usize,
    in_head: bool,
    rows: usize,
}

impl Writer {
    fn event(&mut self, event: Event, label: &str) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag, label),
            // HTML in our own tables can only be a name that looks like it.
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => {
                self.out.push_str("<code>");
                self.text(&text);
                self.out.push_str("</code>");
            }
            Event::SoftBreak => self.out.push('\n'),
            Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(&text);
            }
            Event::TaskListMarker(done) => self.out.push_str(if done { "[x] " } else { "[ ] " }),
        }
    }

    fn text(&mut self, text: &str) {
        // Writing to a string does not fail.
        let _ = Escaper::new(&mut self.out).write_str(text);
    }

    fn heading(&self, level: HeadingLevel) -> u8 {
        (self.level + level as u8).min(6)
    }

    fn start(&mut self, tag: Tag) {
        match tag {
            Tag::Heading { level, .. } => {
                let level = self.heading(level);
                self.out += &format!("<h{level}>");
            }
            Tag::List(Some(first)) => self.out += &format!("<ol start=\"{first}\">"),
            Tag::List(None) => self.out.push_str("<ul>"),
            Tag::Item => self.out.push_str("<li>"),
            Tag::Paragraph => self.out.push_str("<p>"),
            Tag::BlockQuote(_) => self.out.push_str("<blockquote>"),
            Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented) => {
                self.out.push_str("<pre><code>");
            }
            Tag::Emphasis => self.out.push_str("<em>"),
            Tag::Strong => self.out.push_str("<strong>"),
            Tag::Link { dest_url, .. } => {
                // A path in a table is relative to the table, not to the page; other schemes could run something.
                let is_web = dest_url.starts_with("https://");
                self.links.push(is_web);
                if is_web {
                    self.out.push_str("<a href=\"");
                    self.text(&dest_url);
                    self.out.push_str("\">");
                }
            }
            Tag::Table(aligns) => {
                let before = std::mem::take(&mut self.out);
                self.tables.push(Grid { before, aligns, column: 0, in_head: false, rows: 0 });
            }
            Tag::TableHead => {
                self.row();
                self.tables.iter_mut().for_each(|grid| grid.in_head = true);
                self.out.push_str("<thead><tr>");
            }
            Tag::TableRow => {
                self.row();
                self.out.push_str("<tr>");
            }
            Tag::TableCell => self.cell = self.out.len(),
            _ => {}
        }
    }

    fn row(&mut self) {
        if let Some(grid) = self.tables.last_mut() {
            (grid.column, grid.rows) = (0, grid.rows + 1);
        }
    }

    fn end(&mut self, tag: TagEnd, label: &str) {
        match tag {
            TagEnd::Heading(level) => {
                let level = self.heading(level);
                self.out += &format!("</h{level}>\n");
            }
            TagEnd::List(true) => self.out.push_str("</ol>\n"),
            TagEnd::List(false) => self.out.push_str("</ul>\n"),
            TagEnd::Item => self.out.push_str("</li>"),
            TagEnd::Paragraph => self.out.push_str("</p>\n"),
            TagEnd::BlockQuote(_) => self.out.push_str("</blockquote>\n"),
            TagEnd::CodeBlock => self.out.push_str("</code></pre>\n"),
            TagEnd::Emphasis => self.out.push_str("</em>"),
            TagEnd::Strong => self.out.push_str("</strong>"),
            TagEnd::Link => {
                let is_open = self.links.pop() == Some(true);
                self.out.push_str(if is_open { "</a>" } else { "" });
            }
            TagEnd::TableCell => {
                let content = self.out.split_off(self.cell);
                if let Some(grid) = self.tables.last_mut() {
                    self.out += &grid.cell(&content);
                }
            }
            TagEnd::TableRow => self.out.push_str("</tr>\n"),
            TagEnd::TableHead => {
                self.tables.iter_mut().for_each(|grid| grid.in_head = false);
                self.out.push_str("</tr></thead><tbody>\n");
            }
            TagEnd::Table => {
                if let Some(grid) = self.tables.pop() {
                    let content = std::mem::replace(&mut self.out, grid.before) + "</tbody>";
                    self.count += 1;
                    let label = match self.count {
                        1 => label.to_owned(),
                        n => format!("{label}, {n}"),
                    };
                    self.out += &boxed(&label, grid.rows, PreEscaped(content)).into_string();
                }
            }
            _ => {}
        }
    }
}

impl Grid {
    /// The next cell of the row; the first column names its row.
    fn cell(&mut self, content: &str) -> String {
        let class = match self.aligns.get(self.column) {
            Some(Alignment::Right) => "number",
            _ if self.in_head => "",
            _ => text_class(content),
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.column += 1;
        match (self.in_head, self.column) {
            (true, _) => format!("<th scope=\"col\"{class}>{content}</th>"),
            (false, 1) => format!("<th scope=\"row\"{class}>{content}</th>"),
            _ => format!("<td{class}>{content}</td>"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_with_its_notes() {
        let text =
            "**SIMULATED**\n\n# Title\n\n## Part\n\n| a | b |\n| --- | ---: |\n| x | 1 % |\n\n- note `c`\n";
        assert_eq!(
            view(text, "T", 3).into_string(),
            "<p><strong>SIMULATED</strong></p>\n<h5>Part</h5>\n\
             <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"T\"><table><caption>T</caption>\
             <thead><tr><th scope=\"col\">a</th><th scope=\"col\" class=\"number\">b</th></tr></thead><tbody>\n\
             <tr><th scope=\"row\" class=\"short\">x</th><td class=\"number\">1 %</td></tr>\n</tbody></table></div>\
             <ul><li>note <code>c</code></li></ul>\n"
        );
    }

    #[test]
    fn nothing_in_a_table_becomes_markup() {
        let text = "<script>alert(1)</script>\n\nx <img src=x onerror=y> [a](javascript:z) [b](../x) `<i>`\n\n\
                    | a |\n| --- |\n| <b>1</b> |\n";
        let shown = view(text, "\"><i>", 3).into_string();
        for bad in ["<script", "<img", "href", "<i>", "<b>"] {
            assert!(!shown.contains(bad), "{bad}: {shown}");
        }
        assert!(shown.contains("&lt;script&gt;alert(1)") && shown.contains("&lt;b&gt;1"), "{shown}");
        assert!(
            view("[c](https://x.org/?a&b)", "", 3)
                .into_string()
                .contains("<a href=\"https://x.org/?a&amp;b\">c</a>")
        );
    }
}
