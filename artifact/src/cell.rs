//! One point of an experiment: which jobs, under which system, with which arrivals.

use anyhow::{Result, ensure};
use std::fmt;

/// Which jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The server alone, one request after the other: upstream's latency baseline.
    SoloStream,
    /// The server alone with planned arrivals: the base of the server's normalised throughput.
    SoloPaced,
    /// The training job alone: the base of its normalised throughput.
    SoloTraining,
    /// Both.
    Pair,
    /// Both, with the ends of the training's iterations kept.
    Timeline,
    /// A high-priority server among best-effort servers of the same job.
    Crowd {
        /// Servers in all.
        clients: u8,
        pattern: Pattern,
    },
}

/// How the arrivals of several servers relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Each server has a list of its own.
    Independent,
    /// All servers replay the same list, as upstream's do, so that their requests arrive at the same time.
    Coinciding,
}

impl Pattern {
    /// As in the column `arrivals`.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Independent => "independent",
            Pattern::Coinciding => "coinciding",
        }
    }
}

impl Kind {
    /// As in the column `kind`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::SoloStream => "solo-stream",
            Kind::SoloPaced => "solo-paced",
            Kind::SoloTraining => "solo-training",
            Kind::Pair => "pair",
            Kind::Timeline => "timeline",
            Kind::Crowd { .. } => "crowd",
        }
    }
}

/// Offered utilisation in 1/1000, so that equal loads are equal cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Load(u32);

impl Load {
    /// From a ratio in (0, 1) with at most three decimals.
    ///
    /// # Errors
    /// Out of range or finer than 1/1000, with the value.
    pub fn new(ratio: f64) -> Result<Load> {
        let permille = (ratio * 1000.0).round();
        ensure!(
            ratio.is_finite()
                && permille > 0.0
                && permille < 1000.0
                && (permille / 1000.0 - ratio).abs() < 1e-9,
            "load {ratio} must lie between 0 and 1, with at most three decimals"
        );
        Ok(Load(permille as u32))
    }

    /// As a ratio.
    pub fn ratio(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ratio())
    }
}

/// Where arrivals come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The Azure Functions 2021 trace: in full when it has been fetched, else bootstrapped from the excerpt.
    Maf2,
    /// The same trace over all of its fourteen days, where it has been fetched; else as [`Source::Maf2`].
    Maf2TwoWeeks,
    /// Independent exponential gaps.
    Poisson,
    /// One hour of a code-completion service.
    AzureLlmCode,
    /// One hour of a chat service.
    AzureLlmConv,
}

/// How long a cell lasts: the longer of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    pub min_seconds: u64,
    /// Expected requests; the span grows until the mean arrival rate gives as many.
    pub min_requests: u64,
}

/// One cell of the plan. Equal cells of several experiments are simulated once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    pub kind: Kind,
    /// A name that [`sim::System::parse`] knows; `no-sharing` for the solo kinds.
    pub system: String,
    pub inference: Option<String>,
    pub training: Option<String>,
    /// With planned arrivals only.
    pub load: Option<Load>,
    /// With planned arrivals only.
    pub source: Option<Source>,
    pub seed: u64,
    pub span: Span,
    /// The span of the solo cells without planned arrivals. The solo-stream cell of this span shapes the arrivals, so cells
    /// that differ in it are different cells.
    pub base: Span,
}

impl Cell {
    /// Whether its arrivals, and so its key, are known only after the solo-stream cell of its server.
    pub fn is_paced(&self) -> bool {
        match self.kind {
            Kind::SoloPaced | Kind::Pair | Kind::Timeline | Kind::Crowd { .. } => true,
            Kind::SoloStream | Kind::SoloTraining => false,
        }
    }

    /// The cell whose mean latency sets the arrival rate, and whose p99 is the baseline.
    pub fn solo_stream(&self) -> Option<Cell> {
        let inference = self.inference.clone()?;
        Some(Cell { kind: Kind::SoloStream, inference: Some(inference), ..self.solo() })
    }

    /// The cell that the server's throughput is normalised to.
    pub fn solo_paced(&self) -> Option<Cell> {
        let inference = self.inference.clone()?;
        Some(Cell {
            kind: Kind::SoloPaced,
            inference: Some(inference),
            load: self.load,
            source: self.source,
            span: self.span,
            ..self.solo()
        })
    }

    /// The cell that the training's throughput is normalised to.
    pub fn solo_training(&self) -> Option<Cell> {
        let training = self.training.clone()?;
        Some(Cell { kind: Kind::SoloTraining, training: Some(training), ..self.solo() })
    }

    fn solo(&self) -> Cell {
        Cell {
            kind: self.kind,
            system: "no-sharing".to_owned(),
            inference: None,
            training: None,
            load: None,
            source: None,
            seed: self.seed,
            span: self.base,
            base: self.base,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.system)?;
        for job in [&self.inference, &self.training].into_iter().flatten() {
            write!(f, " {job}")?;
        }
        if let Kind::Crowd { clients, pattern } = self.kind {
            let s = if clients == 1 { "" } else { "s" };
            write!(f, " {clients} server{s}, {} arrivals", pattern.name())?;
        }
        if let Some(load) = self.load {
            write!(f, " load {load}")?;
        }
        write!(f, " seed {}", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_checked() {
        assert_eq!(Load::new(0.5).unwrap().to_string(), "0.5");
        for bad in [0.0, 1.0, -0.5, f64::NAN, f64::INFINITY, 0.1234] {
            assert!(Load::new(bad).unwrap_err().to_string().contains("load"), "{bad}");
        }
    }
}
