//! Which cells are measured, in the order of their importance, grouped so that programs start as rarely as possible.

/// The best-effort jobs, with the names that tables show.
pub const TRAINERS: [&str; 2] = ["resnet50-train", "bert-base-384-train"];
pub const SERVER: &str = "bert-base-384-infer";

/// How the launch gate of the prototypes was set: one launch in flight, 100 us of idleness, no limit in time.
pub const PROTOTYPE: &str = "depth=1,idle_wait_us=100,budget_us=0";

/// How ours is set: the defaults of `tally run`, written out so that a record says what was measured.
pub const OURS: &str = "depth=64,idle_wait_us=50,budget_us=500,lead_us=20";

/// What a cell measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The server, requests back to back; its mean sets the arrivals.
    Closed,
    /// The server alone, paced.
    Alone,
    /// A best-effort job alone: its rate is what others are normalised to.
    TrainerAlone(&'static str),
    /// Both.
    Pair(&'static str),
}

/// The list of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrivals {
    Poisson,
    /// The shape of the embedded excerpt of the MAF2 trace.
    Maf2,
}

impl Arrivals {
    /// As in tables.
    pub fn name(self) -> &'static str {
        match self {
            Arrivals::Poisson => "poisson",
            Arrivals::Maf2 => "maf2-excerpt",
        }
    }
}

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    pub kind: Kind,
    pub arrivals: Arrivals,
}

/// Programs that are started once, under one policy, for several cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// As `--policy` takes it; none for programs as they are.
    pub spec: Option<String>,
    pub repeat: u32,
    pub cells: Vec<Cell>,
}

impl Session {
    /// The key of its rows.
    pub fn system(&self) -> &str {
        self.spec.as_deref().unwrap_or("none")
    }

    /// Whether its programs are MPS clients.
    pub fn needs_mps(&self) -> bool {
        self.system().split(':').next().is_some_and(|name| name.split('-').any(|word| word == "mps"))
    }

    /// The best-effort jobs that its cells need.
    pub fn trainers(&self) -> Vec<&'static str> {
        let needed = |trainer: &&str| {
            self.cells
                .iter()
                .any(|cell| matches!(cell.kind, Kind::TrainerAlone(t) | Kind::Pair(t) if t == *trainer))
        };
        TRAINERS.into_iter().filter(needed).collect()
    }

    /// How long it takes on an H200, s: start and warm-up of the programs, and its cells.
    pub fn seconds(&self) -> f64 {
        18.0 + self.cells.iter().map(|cell| span(cell.kind) + 0.7).sum::<f64>()
    }
}

/// How long a cell lasts, s. 6 s at half load are 1,800 requests, so that ten and more lie beyond the 99th percentile.
pub fn span(kind: Kind) -> f64 {
    match kind {
        Kind::Closed => 2.0,
        Kind::Alone | Kind::Pair(_) => 6.0,
        Kind::TrainerAlone(_) => 4.0,
    }
}

/// All sessions. The two repeats of a comparison alternate, so that a slow drift of the machine meets all systems.
pub fn sessions() -> Vec<Session> {
    let cell = |kind| Cell { kind, arrivals: Arrivals::Poisson };
    let maf2 = |kind| Cell { kind, arrivals: Arrivals::Maf2 };
    let pairs = || TRAINERS.map(|trainer| cell(Kind::Pair(trainer))).to_vec();
    let [resnet, bert] = TRAINERS;
    let bare = |repeat| {
        let mut cells = vec![cell(Kind::Closed), cell(Kind::Alone)];
        cells.extend([resnet, bert].map(|trainer| cell(Kind::TrainerAlone(trainer))));
        if repeat == 1 {
            cells.extend([cell(Kind::Pair(resnet)), cell(Kind::Pair(bert)), maf2(Kind::Alone)]);
        }
        Session { spec: None, repeat, cells }
    };
    let under = |spec: &str, repeat, cells| Session { spec: Some(spec.to_owned()), repeat, cells };
    let ours = |repeat| {
        let mut cells = pairs();
        if repeat == 1 {
            cells.extend([maf2(Kind::Pair(resnet)), cell(Kind::Alone)]);
        }
        under(&format!("gate:{OURS}"), repeat, cells)
    };
    let prototype = format!("gate:{PROTOTYPE}");
    let prototype_mps = format!("gate-mps:{PROTOTYPE}");
    let mut sessions = Vec::new();
    for repeat in [1, 2] {
        sessions.push(bare(repeat));
        sessions.push(under(&prototype, repeat, pairs()));
        sessions.push(ours(repeat));
    }
    sessions.extend([1, 2].map(|repeat| under(&prototype_mps, repeat, pairs())));
    let deeper = |system: &str, depth: u32| {
        under(&format!("{system}:depth={depth},idle_wait_us=100,budget_us=0"), 1, pairs())
    };
    let frontier = |budget: u32, wait: u32| {
        let spec = format!("gate:depth=64,idle_wait_us={wait},budget_us={budget},lead_us=20");
        under(&spec, 1, vec![cell(Kind::Pair(resnet))])
    };
    sessions.extend([2, 8].map(|depth| deeper("gate", depth)));
    sessions.extend([(500, 20), (1000, 50), (200, 50), (500, 100)].map(|(b, w)| frontier(b, w)));
    let mut alone_too = pairs();
    alone_too.push(cell(Kind::Alone));
    sessions.push(under("mps", 1, alone_too));
    sessions.push(under("mps-priority", 1, pairs()));
    sessions.extend([2, 8].map(|depth| deeper("gate-mps", depth)));
    sessions.extend([(500, 0), (500, 200), (1000, 20), (300, 50)].map(|(b, w)| frontier(b, w)));
    // Its rate control needs longer than a cell to settle, and lets best effort start slowly.
    sessions.push(under("tgs", 1, pairs()));
    sessions
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_cell_has_one_key_and_the_first_session_measures_what_others_need() {
        let sessions = sessions();
        let mut keys = BTreeSet::new();
        for session in &sessions {
            for cell in &session.cells {
                let key = format!("{} {} {cell:?}", session.system(), session.repeat);
                assert!(keys.insert(key.clone()), "{key} is there twice");
            }
        }
        let first: Vec<Kind> = sessions[0].cells.iter().map(|cell| cell.kind).collect();
        assert_eq!(first[0], Kind::Closed);
        assert!(TRAINERS.into_iter().all(|trainer| first.contains(&Kind::TrainerAlone(trainer))));
        assert_eq!(sessions[0].trainers(), TRAINERS);
        let over_mps: BTreeSet<&str> =
            sessions.iter().filter(|session| session.needs_mps()).map(Session::system).collect();
        assert!(over_mps.contains("mps") && over_mps.contains("mps-priority") && over_mps.len() == 5);
        let frontier = sessions.iter().filter(|session| session.trainers() == [TRAINERS[0]]).count();
        assert_eq!(frontier, 8);
    }

    #[test]
    fn every_policy_is_one_that_a_device_can_have() {
        for session in sessions() {
            let Some(spec) = &session.spec else { continue };
            let wiring = sched::System::parse(spec).unwrap_or_else(|error| panic!("{error}")).wiring();
            assert!(matches!(wiring.hook, sched::Hook::Client | sched::Hook::None), "{spec}");
            assert_eq!(wiring.mps_daemon, session.needs_mps(), "{spec}");
        }
        let parameters = |spec: &str| sched::System::parse(spec).unwrap().parameters();
        assert_eq!(parameters(&format!("gate:{OURS}")), parameters("gate"), "what `tally run` does");
    }

    #[test]
    fn two_calls_of_ten_minutes_are_enough() {
        let sessions = sessions();
        let seconds: f64 = sessions.iter().map(Session::seconds).sum();
        assert!((600.0..1000.0).contains(&seconds), "{seconds}");
        // What the comparison with the prototype needs comes first.
        let first: f64 = sessions[..8].iter().map(Session::seconds).sum();
        assert!(first < 400.0, "{first}");
    }
}
