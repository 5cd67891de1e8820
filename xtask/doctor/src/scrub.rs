//! Takes out of a text what says whose machine it comes from: home folders, the user, the host, where the repository is.

use crate::probe;
use std::path::Path;

/// Names that nobody is known by.
const NOBODY: [&str; 4] = ["root", "localhost", "user", "nobody"];

/// Replacements for one machine.
#[derive(Clone, Debug, Default)]
pub struct Scrub {
    /// Replaced wherever they stand, longest first.
    paths: Vec<(String, &'static str)>,
    /// Replaced as whole words.
    words: Vec<(String, &'static str)>,
}

impl Scrub {
    /// For this process on this machine.
    pub fn here(root: &Path) -> Scrub {
        let environment = |name: &str| std::env::var(name).ok();
        let asked = |program: &str, argument: &str| {
            probe::ask(program, &[argument])
                .ok()
                .filter(|answer| answer.success)
                .map(|answer| answer.line().to_owned())
        };
        let homes = [environment("HOME"), environment("USERPROFILE")];
        let users =
            [environment("USER"), environment("LOGNAME"), environment("USERNAME"), asked("id", "-un")];
        let hosts = [environment("HOSTNAME"), environment("COMPUTERNAME"), asked("uname", "-n")];
        Scrub::new(
            root,
            homes.into_iter().flatten(),
            users.into_iter().flatten(),
            hosts.into_iter().flatten(),
        )
    }

    /// For these.
    pub fn new(
        root: &Path,
        homes: impl Iterator<Item = String>,
        users: impl Iterator<Item = String>,
        hosts: impl Iterator<Item = String>,
    ) -> Scrub {
        let mut scrub = Scrub::default();
        let mut roots = vec![root.to_path_buf()];
        roots.extend(root.canonicalize());
        for root in roots {
            scrub.path(&root.to_string_lossy(), "<repository>");
        }
        for home in homes {
            scrub.path(&home, "<home>");
            if let Ok(real) = Path::new(&home).canonicalize() {
                scrub.path(&real.to_string_lossy(), "<home>");
            }
        }
        for user in users {
            scrub.word(&user, "<user>");
        }
        for host in hosts {
            // The first part of a full name is a name, too.
            let short = host.split('.').next().unwrap_or_default().to_owned();
            scrub.word(&host, "<host>");
            scrub.word(&short, "<host>");
        }
        let longest = |pair: &(String, &str)| std::cmp::Reverse(pair.0.len());
        scrub.paths.sort_by_key(longest);
        scrub.words.sort_by_key(longest);
        scrub
    }

    fn path(&mut self, path: &str, by: &'static str) {
        let path = path.trim_end_matches('/');
        // A home of `/` is a container's.
        if path.len() > 1 && !self.paths.iter().any(|(known, _)| known == path) {
            self.paths.push((path.to_owned(), by));
        }
    }

    fn word(&mut self, word: &str, by: &'static str) {
        let word = word.trim();
        let is_known = self.words.iter().any(|(known, _)| known == word);
        if word.len() > 1 && !is_known && !NOBODY.contains(&word) {
            self.words.push((word.to_owned(), by));
        }
    }

    /// The text without them.
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (path, by) in &self.paths {
            text = replace(&text, path, by, |before, after| !is_of_name(before) && !is_of_name(after));
        }
        // Homes of others, and of this user on another machine.
        for homes in ["/home/", "/Users/", "\\Users\\"] {
            text = without_names_after(&text, homes);
        }
        for (word, by) in &self.words {
            text = replace(&text, word, by, |before, after| !is_of_word(before) && !is_of_word(after));
        }
        text
    }
}

fn is_of_word(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// `/srv/tally` is no part of `/srv/tally2`, nor of `/srv/tally-old`.
fn is_of_name(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || "_-.".contains(c))
}

/// Replaces what is found, in any case of its letters, where the characters around it allow it.
fn replace(text: &str, what: &str, by: &str, fits: impl Fn(Option<char>, Option<char>) -> bool) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(c) = rest.chars().next() {
        if let Some(found) = rest.get(..what.len())
            && found.eq_ignore_ascii_case(what)
            && fits(before, rest[what.len()..].chars().next())
        {
            result.push_str(by);
            before = by.chars().last();
            rest = &rest[what.len()..];
        } else {
            result.push(c);
            before = Some(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    result
}

/// `/home/ann/x` becomes `<home>/x`.
fn without_names_after(text: &str, homes: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(homes) {
        let name = &rest[at + homes.len()..];
        let end = name.find(|c: char| !(is_of_name(Some(c)) || c == '@' || c == '+')).unwrap_or(name.len());
        if end == 0 {
            result.push_str(&rest[..at + homes.len()]);
        } else {
            result.push_str(&rest[..at]);
            result.push_str("<home>");
        }
        rest = &name[end..];
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrub() -> Scrub {
        let one = |text: &str| std::iter::once(text.to_owned());
        Scrub::new(
            Path::new("/srv/ann/tally"),
            one("/home/ann"),
            one("ann").chain(one("root")),
            one("lab7.example.org"),
        )
    }

    #[test]
    fn paths_and_names_go() {
        for (text, expected) in [
            ("/srv/ann/tally/results/x", "<repository>/results/x"),
            ("--out /home/ann/out", "--out <home>/out"),
            ("/srv/ann/tally-old", "/srv/<user>/tally-old"),
            ("in /home/bob/.cargo and /Users/carol.d/x", "in <home>/.cargo and <home>/x"),
            ("C:\\Users\\Ann\\x", "C:<home>\\x"),
            ("ann@lab7: annual, Ann's, LAB7.example.org", "<user>@<host>: annual, <user>'s, <host>"),
            ("/scratch/ann/y", "/scratch/<user>/y"),
            ("the root of ü and /home/", "the root of ü and /home/"),
        ] {
            assert_eq!(scrub().text(text), expected);
        }
    }

    #[test]
    fn a_home_at_the_top_takes_no_path_with_it() {
        let none = std::iter::empty;
        let scrub = Scrub::new(Path::new("/repo"), std::iter::once("/".to_owned()), none(), none());
        assert_eq!(scrub.text("/etc/x /repo/y"), "/etc/x <repository>/y");
    }
}
