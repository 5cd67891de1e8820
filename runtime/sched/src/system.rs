//! A system under comparison: an entry of the registry with its parameters.

use crate::client::{Client, Refused};
use crate::parameter::{Parameter, Values};
use crate::policy::{Policy, Setting};
use crate::{Ns, registry};
use std::fmt;

/// All that is known of a system by name. One static list per policy, see [`crate::registry`].
#[derive(Debug)]
pub struct Entry {
    /// As experiments and tables write it.
    pub name: &'static str,
    /// As figures label it.
    pub title: &'static str,
    /// What a reader of a figure must know; empty where the title says it.
    pub note: &'static str,
    /// Red, green and blue in figures; no two systems share a colour.
    pub color: (u8, u8, u8),
    /// The paper, code or manual that the policy follows.
    pub source: &'static str,
    pub parameters: &'static [Parameter],
    /// A cell must last so long for the policy to leave its start-up, s; 0 if it has none.
    pub settles_s: u64,
    pub wiring: fn(&Values) -> Wiring,
    pub policy: fn(&Values, &Setting) -> Box<dyn Policy>,
}

/// How a system's clients share the device, and what of their launches the policy sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wiring {
    pub substrate: Substrate,
    /// The clients talk to the device through the MPS daemon.
    pub mps_daemon: bool,
    /// Blocks of the high-priority client are placed first.
    pub high_first: bool,
    pub hook: Hook,
    pub form: Form,
}

impl Wiring {
    /// A server that runs all clients in one context, on streams with priorities, and asks its policy before each launch.
    pub const SERVER: Wiring = Wiring {
        substrate: Substrate::Mps,
        mps_daemon: false,
        high_first: true,
        hook: Hook::Server,
        form: Form::Original,
    };
}

/// How processes share the device below a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Substrate {
    /// Separate contexts that take turns.
    Contexts,
    /// One scheduling domain for all clients (MPS, or one context with several streams).
    Mps,
    /// Fixed shares of the multiprocessors: the high-priority client's in 1/1000; best-effort clients have equal shares of
    /// the rest.
    Partitions { high_permille: u32 },
}

/// Where best-effort launches are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hook {
    /// Nowhere: the policy is not asked.
    None,
    /// In the client's process: its host waits inside the launch call.
    Client,
    /// In a server that queues launches, so that the clients' hosts go on.
    Server,
    /// As before; and the policy says whether what has left the device goes on ([`crate::Op::Continue`]) or counts as
    /// done ([`crate::Op::Close`]).
    Closing,
}

/// In which form best-effort kernels are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// As they are.
    Original,
    /// Multi-wave kernels of independent blocks look at a stop flag before each block.
    Gated,
    /// Sliced or as persistent workers, whichever [`crate::tally::choose`] finds within this turnaround time, ns.
    Transformed { threshold_ns: Ns },
}

/// A system with its parameters.
#[derive(Clone)]
pub struct System {
    name: String,
    entry: &'static Entry,
    values: Values,
}

/// Why a system's name was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(String);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

impl System {
    /// A system by name, `name[:key=value[,key=value]]`, with defaults for what is not written.
    ///
    /// # Errors
    /// An unknown name, an unknown parameter or a bad value; the message lists the known ones.
    pub fn parse(text: &str) -> Result<System, ParseError> {
        let (name, parameters) = text.split_once(':').map_or((text, None), |(n, p)| (n, Some(p)));
        let Some(entry) = registry::find(name) else {
            let known: Vec<&str> = System::names().collect();
            return Err(ParseError(format!("unknown system `{name}`; known systems: {}", known.join(", "))));
        };
        let Some(parameters) = parameters else {
            return Ok(System { name: name.to_owned(), entry, values: Values::new(entry.parameters) });
        };
        let values = Values::parse(entry.parameters, parameters)
            .map_err(|error| ParseError(format!("system `{name}`: {error}")))?;
        Ok(System { name: format!("{name}:{}", values.written()), entry, values })
    }

    /// All names, in the order of tables and figures.
    pub fn names() -> impl Iterator<Item = &'static str> {
        registry::entries().map(|e| e.name)
    }

    /// The name, with the written parameters in their usual order and form.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the registry knows of it.
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// All parameters with their values, `key=value,...`; empty if it has none. One that was added later is left out at
    /// its default, so that a system without it is still the same.
    pub fn parameters(&self) -> String {
        self.values.all()
    }

    /// The value of a choice among words, if the system has that parameter.
    pub fn word(&self, parameter: &str) -> Option<&'static str> {
        self.values.word(parameter)
    }

    /// How it is wired to the device.
    pub fn wiring(&self) -> Wiring {
        (self.entry.wiring)(&self.values)
    }

    /// Its policy in its initial state.
    pub fn policy(&self, setting: &Setting) -> Box<dyn Policy> {
        (self.entry.policy)(&self.values, setting)
    }

    /// The half of a best-effort client that starts at `now`, for its own process: as if the high-priority side had just
    /// become idle. `max_rate` is that side's largest block rate so far ([`crate::tgs::Meter::max_rate`]; 0 if it was not
    /// measured), which only TGS asks for.
    ///
    /// # Errors
    /// A system that holds nothing back, or one that only the simulator runs.
    pub fn client(&self, now: Ns, max_rate: f64) -> Result<Client, Refused> {
        let refused = |why| Err(Refused { system: self.name.clone(), why });
        match self.wiring().hook {
            Hook::None => {
                return refused("it holds no launches back, so there is nothing to decide in a client");
            }
            Hook::Server | Hook::Closing => return refused("simulated only: a server holds its launches"),
            Hook::Client => {}
        }
        let policy = self.policy(&Setting { clients: 1, ..Setting::default() });
        match policy.halves() {
            Some(halves) => Ok(halves.client(now, max_rate)),
            None if self.wiring().form != Form::Original => {
                refused("simulated only: it stops kernels between thread blocks")
            }
            None => refused("simulated only: one instance decides for all of its clients"),
        }
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.entry.name, self.parameters())
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl PartialEq for System {
    fn eq(&self, other: &System) -> bool {
        self.name == other.name && self.parameters() == other.parameters()
    }
}
