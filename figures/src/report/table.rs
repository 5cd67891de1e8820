//! Tables of text: read from CSV, shown in a box of their own.

use std::path::Path;

use anyhow::{Context, Result};
use maud::{Markup, html};

/// Rows from which a table gets a box with a height of its own.
const LONG: usize = 25;

/// Characters from which a text is broken into lines.
const LONG_TEXT: usize = 40;

/// A table as text; every row has as many fields as the header.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads a CSV file with any columns.
    ///
    /// # Errors
    /// The file cannot be read, or a row has another number of fields than the header, by line.
    pub fn read(path: &Path) -> Result<Table> {
        let context = || format!("cannot read {}", path.display());
        Table::parse(&bounded::bytes(path, bounded::TABLE).with_context(context)?).with_context(context)
    }

    /// Reads a CSV file when it has these columns, in any order.
    ///
    /// # Errors
    /// As [`Table::read`], but of a file without the columns only that it cannot be read.
    pub fn read_if(path: &Path, columns: &[&str]) -> Result<Option<Table>> {
        let context = || format!("cannot read {}", path.display());
        let bytes = bounded::bytes(path, bounded::TABLE).with_context(context)?;
        let header = csv::Reader::from_reader(bytes.as_slice()).headers().cloned().unwrap_or_default();
        let has_all = columns.iter().all(|column| header.iter().any(|found| found == *column));
        if has_all { Table::parse(&bytes).map(Some).with_context(context) } else { Ok(None) }
    }

    /// These columns, in this order, as far as the table has them.
    pub fn select(&self, columns: &[&str]) -> Table {
        let found: Vec<usize> = columns.iter().filter_map(|column| self.column(column)).collect();
        let of = |row: &Vec<String>| found.iter().map(|at| row[*at].clone()).collect();
        Table { header: of(&self.header), rows: self.rows.iter().map(of).collect() }
    }

    fn parse(bytes: &[u8]) -> Result<Table> {
        let mut reader = csv::Reader::from_reader(bytes);
        let fields = |record: &csv::StringRecord| record.iter().map(str::to_owned).collect::<Vec<_>>();
        let header = fields(reader.headers()?);
        let rows = reader.records().map(|record| Ok(fields(&record?))).collect::<Result<_>>()?;
        Ok(Table { header, rows })
    }

    /// The position of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|column| column == name)
    }

    /// The field of a row; empty where the table has no such column.
    pub fn get<'a>(&'a self, row: &'a [String], column: &str) -> &'a str {
        self.column(column).and_then(|at| row.get(at)).map_or("", String::as_str)
    }

    /// The different values of a column over some rows, in the order of their first appearance, without empty ones.
    pub fn distinct<'a>(&'a self, rows: impl Iterator<Item = &'a Vec<String>>, column: &str) -> Vec<&'a str> {
        let mut found = Vec::new();
        for value in rows.map(|row| self.get(row, column)) {
            if !value.is_empty() && !found.contains(&value) {
                found.push(value);
            }
        }
        found
    }

    /// The whole table, numbers to the right.
    pub fn view(&self, caption: &str) -> Markup {
        let right: Vec<bool> = (0..self.header.len()).map(|at| self.is_numeric(at)).collect();
        let class = |at: usize, value: &str| if right[at] { "number" } else { text_class(value) };
        boxed(
            caption,
            self.rows.len(),
            html! {
                thead { tr { @for name in &self.header { th scope="col" { (name) } } } }
                tbody {
                    @for row in &self.rows {
                        tr {
                            @for (at, value) in row.iter().enumerate() {
                                td class=(class(at, value)) { (verdict(&self.header[at], value)) }
                            }
                        }
                    }
                }
            },
        )
    }

    fn is_numeric(&self, at: usize) -> bool {
        let mut values = self.rows.iter().map(|row| &row[at]).filter(|value| !value.is_empty()).peekable();
        values.peek().is_some() && values.all(|value| value.parse::<f64>().is_ok())
    }
}

/// How a cell of text is laid out: a short one is not broken, a long one gets room.
pub fn text_class(content: &str) -> &'static str {
    if content.chars().count() < LONG_TEXT { "short" } else { "long" }
}

/// The value of a column of verdicts with a mark that CSS can colour; any other value as it is.
fn verdict(column: &str, value: &str) -> Markup {
    let kind = match value.split_whitespace().next().unwrap_or_default() {
        _ if !column.contains("verdict") => None,
        "held" | "holds" | "same" | "within" | "reproduced" => Some("good"),
        "missed" | "differs" | "fails" | "failed" => Some("bad"),
        // Nothing, or not run.
        "" | "not" => None,
        _ => Some("open"),
    };
    match kind {
        Some(kind) => html! { span class={ "verdict " (kind) } { (value) } },
        None => html! { (value) },
    }
}

/// A table in a box that scrolls by itself, so that a wide one does not widen the page. `rows` of its body decide
/// whether the box gets a height.
pub fn boxed(caption: &str, rows: usize, content: Markup) -> Markup {
    let class = if rows > LONG { "scroll tall" } else { "scroll" };
    html! {
        // Reachable by keyboard, else its right part could not be read without a mouse.
        div class=(class) tabindex="0" role="region" aria-label=(caption) {
            table { caption { (caption) } (content) }
        }
    }
}

/// A table whose first column names its rows.
pub fn facts<V: maud::Render>(caption: &str, heads: &[&str], rows: &[(String, Vec<V>)]) -> Markup {
    boxed(
        caption,
        rows.len(),
        html! {
            thead { tr { @for head in heads { th scope="col" { (head) } } } }
            tbody {
                @for (name, values) in rows {
                    tr { th scope="row" { (name) } @for value in values { td { (value) } } }
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_numbers_go_to_the_right() {
        let table = Table::parse(b"who,p99_ms,a_verdict\n<b>x</b>,1.5,held\n\"a, b\",,missed\n").unwrap();
        let shown = table.view("<i>").into_string();
        assert!(
            shown.contains("<td class=\"short\">&lt;b&gt;x&lt;/b&gt;</td><td class=\"number\">1.5</td>"),
            "{shown}"
        );
        assert!(shown.contains("<caption>&lt;i&gt;</caption>") && !shown.contains("<i>"), "{shown}");
        assert!(shown.contains("<span class=\"verdict good\">held</span>"), "{shown}");
        assert!(shown.contains("<td class=\"short\">a, b</td><td class=\"number\"></td>"), "{shown}");
        assert!(!shown.contains("tall"));
    }

    #[test]
    fn a_short_row_is_an_error_with_its_line() {
        let error = format!("{:#}", Table::parse(b"a,b\n1,2\n3\n").unwrap_err());
        assert!(error.contains("line: 3"), "{error}");
    }

    #[test]
    fn columns_are_selected_in_the_order_asked_for() {
        let table = Table::parse(b"a,b,c\n1,2,3\n").unwrap();
        let expected = Table::parse(b"c,a\n3,1\n").unwrap();
        assert_eq!(table.select(&["c", "x", "a"]), expected);
    }

    #[test]
    fn distinct_values_keep_their_order() {
        let table = Table::parse(b"a\nz\nx\n\"\"\nz\n").unwrap();
        assert_eq!(table.distinct(table.rows.iter(), "a"), ["z", "x"]);
        assert!(table.distinct(table.rows.iter(), "b").is_empty());
    }
}
