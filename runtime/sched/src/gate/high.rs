//! The high-priority client's half: when to change the shared word.

use super::Activity;
use crate::Ns;

/// The high-priority client's half: when to change the shared word.
#[derive(Clone, Debug, Default)]
pub struct High {
    launches: u64,
    active: bool,
}

/// What a high-priority client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HighEvent {
    /// A launch is about to be handed to the driver.
    Launch,
    /// A synchronising call returned; it was entered when this many launches had been made.
    SyncReturned { launches_at_entry: u64 },
}

impl High {
    /// Launches so far: to be read when a synchronising call is entered.
    pub fn launches(&self) -> u64 {
        self.launches
    }

    /// The new value of the shared word, if it has to change.
    ///
    /// A synchronising call ends the activity only if no launch came after it was entered: with several threads another
    /// one may have launched meanwhile.
    pub fn step(&mut self, event: HighEvent, now: Ns) -> Option<Activity> {
        match event {
            HighEvent::Launch => {
                self.launches += 1;
                (!std::mem::replace(&mut self.active, true)).then_some(Activity::Active)
            }
            HighEvent::SyncReturned { launches_at_entry } => {
                let last = self.active && launches_at_entry == self.launches;
                if last {
                    self.active = false;
                }
                last.then_some(Activity::IdleSince(now))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_follows_the_last_synchronising_call() {
        let mut high = High::default();
        assert_eq!(high.step(HighEvent::Launch, 1), Some(Activity::Active));
        assert_eq!(high.step(HighEvent::Launch, 2), None);
        // Another thread launched while this one was waiting: still active.
        assert_eq!(high.step(HighEvent::SyncReturned { launches_at_entry: 1 }, 3), None);
        assert_eq!(
            high.step(HighEvent::SyncReturned { launches_at_entry: 2 }, 4),
            Some(Activity::IdleSince(4))
        );
        assert_eq!(high.step(HighEvent::SyncReturned { launches_at_entry: 2 }, 5), None);
    }
}
