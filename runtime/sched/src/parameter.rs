//! Parameters of a system: names, units, ranges, and their values.

use std::fmt;

/// One parameter. Numbers are integers in the smallest step that the unit allows, so that no rounding depends on the
/// machine: `idle_wait_us = 0.5` is 500 ns.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// As it is written, unit last: `idle_wait_us`.
    pub name: &'static str,
    /// One line for documents.
    pub meaning: &'static str,
    pub kind: Kind,
    /// Of a word: its position in the list.
    pub default: u64,
    /// The system had results before it had this parameter, and its default leaves it as it was: at its default it is no
    /// part of what a cell is stored under.
    pub later: bool,
}

/// What may be written for a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A decimal number between two bounds, all three in units of 10^-`decimals` of what is written.
    Number { decimals: u32, min: u64, max: u64 },
    /// One of these words.
    Word(&'static [&'static str]),
}

impl Parameter {
    /// A count.
    pub const fn count(
        name: &'static str,
        meaning: &'static str,
        default: u64,
        min: u64,
        max: u64,
    ) -> Parameter {
        Parameter { name, meaning, kind: Kind::Number { decimals: 0, min, max }, default, later: false }
    }

    /// A share written in percent and kept in 1/1000.
    pub const fn percent(
        name: &'static str,
        meaning: &'static str,
        default: u64,
        min: u64,
        max: u64,
    ) -> Parameter {
        Parameter { name, meaning, kind: Kind::Number { decimals: 1, min, max }, default, later: false }
    }

    /// A time of at most a second, written in microseconds and kept in ns.
    pub const fn us(name: &'static str, meaning: &'static str, default: u64) -> Parameter {
        let kind = Kind::Number { decimals: 3, min: 0, max: 1_000_000_000 };
        Parameter { name, meaning, kind, default, later: false }
    }

    /// A time of at most a second, written in milliseconds and kept in ns.
    pub const fn ms(name: &'static str, meaning: &'static str, default: u64) -> Parameter {
        let kind = Kind::Number { decimals: 6, min: 0, max: 1_000_000_000 };
        Parameter { name, meaning, kind, default, later: false }
    }

    /// A choice; the default is a position in the list.
    pub const fn word(
        name: &'static str,
        meaning: &'static str,
        words: &'static [&'static str],
        default: u64,
    ) -> Parameter {
        Parameter { name, meaning, kind: Kind::Word(words), default, later: false }
    }

    /// The same, see [`Parameter::later`].
    pub const fn added_later(self) -> Parameter {
        Parameter { later: true, ..self }
    }

    /// A value as it is written.
    pub fn show(&self, value: u64) -> String {
        match self.kind {
            Kind::Word(words) => words[value as usize].to_owned(),
            Kind::Number { decimals, .. } => show_decimal(value, decimals),
        }
    }

    /// Reads a value.
    fn read(&self, text: &str) -> Option<u64> {
        match self.kind {
            Kind::Word(words) => words.iter().position(|w| *w == text).map(|i| i as u64),
            Kind::Number { decimals, min, max } => {
                read_decimal(text, decimals).filter(|v| (min..=max).contains(v))
            }
        }
    }
}

/// Name and range: `depth (1 to 1024)`.
impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Word(words) => write!(f, "{} ({})", self.name, words.join(", ")),
            Kind::Number { decimals, min, max } => {
                write!(f, "{} ({} to {}", self.name, self.show(min), self.show(max))?;
                match decimals {
                    0 => write!(f, ")"),
                    1 => write!(f, ", 1 decimal)"),
                    n => write!(f, ", {n} decimals)"),
                }
            }
        }
    }
}

fn show_decimal(value: u64, decimals: u32) -> String {
    let scale = 10_u64.pow(decimals);
    let (whole, fraction) = (value / scale, value % scale);
    if fraction == 0 {
        return whole.to_string();
    }
    let digits = format!("{fraction:0width$}", width = decimals as usize);
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

/// A plain decimal number, exactly; `None` if it has more decimals than the unit allows.
fn read_decimal(text: &str, decimals: u32) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > decimals as usize {
        return None;
    }
    let padded = format!("{whole}{fraction:0<width$}", width = decimals as usize);
    padded.parse().ok()
}

/// The value of every parameter of a system.
#[derive(Clone, Debug)]
pub struct Values {
    parameters: &'static [Parameter],
    values: Vec<u64>,
    /// Which ones were written out.
    written: Vec<bool>,
}

impl Values {
    /// All defaults.
    pub fn new(parameters: &'static [Parameter]) -> Values {
        let values = parameters.iter().map(|p| p.default).collect();
        Values { parameters, values, written: vec![false; parameters.len()] }
    }

    /// Reads `key=value[,key=value]` over the defaults.
    ///
    /// # Errors
    /// What is wrong, with the known parameters and their ranges.
    pub fn parse(parameters: &'static [Parameter], text: &str) -> Result<Values, String> {
        let mut values = Values::new(parameters);
        for pair in text.split(',') {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(format!("`{pair}` is not of the form `name=value`; {}", values.known()));
            };
            let Some(at) = parameters.iter().position(|p| p.name == key) else {
                return Err(format!("unknown parameter `{key}`; {}", values.known()));
            };
            if values.written[at] {
                return Err(format!("parameter `{key}` is given twice"));
            }
            let Some(read) = parameters[at].read(value) else {
                return Err(format!("`{value}` is no value of {}", parameters[at]));
            };
            values.values[at] = read;
            values.written[at] = true;
        }
        Ok(values)
    }

    fn known(&self) -> String {
        if self.parameters.is_empty() {
            return "it has no parameters".to_owned();
        }
        let known: Vec<String> = self.parameters.iter().map(Parameter::to_string).collect();
        format!("its parameters: {}", known.join(", "))
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|p| p.name == name)
    }

    /// The value of a number that the system has.
    pub fn number(&self, name: &str) -> u64 {
        self.values[self.position(name).unwrap_or_else(|| panic!("no parameter `{name}`"))]
    }

    /// The value of a choice, if the system has it.
    pub fn word(&self, name: &str) -> Option<&'static str> {
        let at = self.position(name)?;
        match self.parameters[at].kind {
            Kind::Word(words) => Some(words[self.values[at] as usize]),
            Kind::Number { .. } => None,
        }
    }

    /// The written parameters in their usual order and form.
    pub fn written(&self) -> String {
        self.list(|at| self.written[at])
    }

    /// All parameters; those that were added later only if they are not at their default.
    pub fn all(&self) -> String {
        self.list(|at| !self.parameters[at].later || self.values[at] != self.parameters[at].default)
    }

    fn list(&self, wanted: impl Fn(usize) -> bool) -> String {
        let shown = |at: usize| {
            let parameter = &self.parameters[at];
            format!("{}={}", parameter.name, parameter.show(self.values[at]))
        };
        let wanted = (0..self.values.len()).filter(|&at| wanted(at));
        wanted.map(shown).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_and_shown_exactly() {
        for (text, decimals, value) in
            [("0.1", 6, 100_000), ("0.0316", 6, 31_600), ("50", 3, 50_000), ("7", 0, 7), ("2.5", 1, 25)]
        {
            assert_eq!(read_decimal(text, decimals), Some(value), "{text}");
            assert_eq!(show_decimal(value, decimals), text);
        }
        assert_eq!(read_decimal("1.50", 1), Some(15));
        for bad in ["", ".5", "1.", "-1", "1e3", "0.0000001", "1.25", " 1", "99999999999999999999"] {
            assert_eq!(read_decimal(bad, 1), None, "{bad}");
        }
    }
}
