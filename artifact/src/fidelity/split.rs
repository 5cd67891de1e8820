//! `artifact/fidelity.toml`: which known values set constants of the model, and which validate it.

use crate::root::Root;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::path::Path;

/// The file's name below the repository.
pub const FILE: &str = "artifact/fidelity.toml";

/// Where a known value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The demo run that the paper's artifact publishes (A100).
    Published,
    /// Our measurement of `h200-check`.
    Measured,
    /// A run folder given with `--measured`.
    Folder,
}

impl Source {
    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Source::Published => "published",
            Source::Measured => "measured",
            Source::Folder => "folder",
        }
    }
}

/// Rows that a constant was chosen by. What is missing stands for all.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    pub source: Source,
    pub system: String,
    pub inference: Option<String>,
    /// Empty for a server alone.
    pub training: Option<String>,
    /// Which value of the rows, if it is not the p99: `mean`, `p50`, `gpu-busy-share`.
    pub value: Option<String>,
}

/// One fitted constant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// File and field.
    pub parameter: String,
    pub rows: Vec<Rows>,
}

/// Systems whose p99s validate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    pub published: Vec<String>,
    pub measured: Vec<String>,
}

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    pub fitted: Vec<Fitted>,
    pub validation: Validation,
}

/// What a known p99 is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A constant was chosen by it, so agreement says nothing.
    Calibration,
    Validation,
    /// A system that the row does not stand for, shown beside it.
    Finding,
}

impl Role {
    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Role::Calibration => "calibration",
            Role::Validation => "validation",
            Role::Finding => "finding",
        }
    }
}

impl Split {
    /// Reads and checks the file.
    ///
    /// # Errors
    /// It is malformed, by line; a constant without rows; a system that is listed for both.
    pub fn load(root: &Root) -> Result<Split> {
        let path = root.path().join(FILE);
        Split::read(&path).with_context(|| format!("in {}", path.display()))
    }

    fn read(path: &Path) -> Result<Split> {
        let split: Split =
            toml::from_str(&bounded::text(path, bounded::DEFINITION).context("cannot read it")?)?;
        for fitted in &split.fitted {
            ensure!(!fitted.rows.is_empty(), "`{}` names no row that it was chosen by", fitted.parameter);
        }
        for (source, systems) in
            [(Source::Published, &split.validation.published), (Source::Measured, &split.validation.measured)]
        {
            for system in systems {
                sim::System::parse(system).context("validation")?;
                let by = split.fitted_by(source, system, |_| true);
                ensure!(
                    by.is_none(),
                    "p99s of `{system}` are said to validate, but set {}",
                    by.unwrap_or("")
                );
            }
        }
        Ok(split)
    }

    /// The constant that p99s of a system set, if any.
    fn fitted_by(&self, source: Source, system: &str, also: impl Fn(&Rows) -> bool) -> Option<&str> {
        let sets = |rows: &Rows| {
            rows.source == source && rows.system == system && rows.value.is_none() && also(rows)
        };
        let fitted = self.fitted.iter().find(|fitted| fitted.rows.iter().any(sets));
        fitted.map(|fitted| fitted.parameter.as_str())
    }

    /// What the p99 of a pair is for. All of a measured run folder validates: it is younger than the constants.
    pub fn role(&self, source: Source, system: &str, inference: &str, training: &str) -> Role {
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|w| w == name);
        let covers = |rows: &Rows| is(&rows.inference, inference) && is(&rows.training, training);
        if self.fitted_by(source, system, covers).is_some() { Role::Calibration } else { Role::Validation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fidelity::truth;
    use std::path::PathBuf;

    fn root() -> Root {
        Root::at(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap())
    }

    #[test]
    fn every_known_p99_either_calibrates_or_validates() {
        let split = Split::load(&root()).unwrap();
        for truth in truth::published().unwrap().iter().chain(&truth::measured(&root()).unwrap()) {
            let listed = match truth.source {
                Source::Published => &split.validation.published,
                _ => &split.validation.measured,
            };
            let role = split.role(truth.source, &truth.system, &truth.inference, &truth.training);
            assert_eq!(role == Role::Validation, listed.contains(&truth.system), "{truth:?}");
        }
    }

    #[test]
    fn every_fitted_constant_of_a_machine_names_its_rows() {
        let split = Split::load(&root()).unwrap();
        let listed = |name: &str| split.fitted.iter().any(|fitted| fitted.parameter == name);
        for machine in ["h200", "a100"] {
            let file = format!("machines/{machine}.toml");
            let table: toml::Table =
                std::fs::read_to_string(root().path().join(&file)).unwrap().parse().unwrap();
            for (name, rule) in table["rules"].as_table().unwrap() {
                if rule["origin"].as_str() == Some("fitted") {
                    assert!(listed(&format!("{file} rules.{name}")), "{file}: {name}");
                }
            }
            for (id, _) in table.get("anchors").and_then(toml::Value::as_table).into_iter().flatten() {
                assert!(listed(&format!("{file} anchors.{id}")), "{file}: {id}");
            }
        }
    }

    #[test]
    fn fitted_constants_exist() {
        for fitted in Split::load(&root()).unwrap().fitted {
            let (file, path) = fitted.parameter.split_once(' ').unwrap();
            let text = std::fs::read_to_string(root().path().join(PathBuf::from(file))).unwrap();
            let mut at: toml::Value = toml::Value::Table(text.parse().unwrap());
            for part in path.split('.') {
                at = at.get(part).unwrap_or_else(|| panic!("{}", fitted.parameter)).clone();
            }
        }
    }

    #[test]
    fn a_system_cannot_do_both() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fidelity.toml");
        let text = |value: &str| {
            format!(
                "[[fitted]]\nparameter = \"p\"\nrows = [{{ source = \"published\", system = \"mps\"{value} }}]\n\
                 [validation]\npublished = [\"mps\"]\nmeasured = []\n"
            )
        };
        std::fs::write(&path, text("")).unwrap();
        let error = format!("{:#}", Split::read(&path).unwrap_err());
        assert!(error.contains("`mps` are said to validate, but set p"), "{error}");
        std::fs::write(&path, text(", value = \"p50\"")).unwrap();
        Split::read(&path).unwrap();
        std::fs::write(&path, text("").replace("[{ source = \"published\", system = \"mps\" }]", "[]"))
            .unwrap();
        assert!(format!("{:#}", Split::read(&path).unwrap_err()).contains("names no row"));
    }
}
