//! Whether the high-priority client is at work, for policies that look at nothing else of it.

use crate::Ns;

/// The high-priority client as seen from its launches. Policies that were designed for a server that is told of requests
/// see launches only; an idle wait bridges the pauses between the launches of one request.
#[derive(Clone, Debug)]
pub struct High {
    active: bool,
    idle_since: Ns,
    idle_wait_ns: Ns,
    /// The last wake-up that was asked for, so that none is asked for twice.
    armed: Ns,
}

impl High {
    /// Idle since time 0.
    pub fn new(idle_wait_ns: Ns) -> High {
        High { active: false, idle_since: 0, idle_wait_ns, armed: 0 }
    }

    /// It launched.
    pub fn launch(&mut self) {
        self.active = true;
    }

    /// All that it launched has completed.
    pub fn idle(&mut self, now: Ns) {
        self.active = false;
        self.idle_since = now;
    }

    /// It has been idle for the wait.
    pub fn is_idle(&self, now: Ns) -> bool {
        !self.active && now >= self.idle_since + self.idle_wait_ns
    }

    /// When that will be so unless it launches again, if that was not asked before and it is not so yet.
    pub fn wake(&mut self, now: Ns) -> Option<Ns> {
        let due = self.idle_since + self.idle_wait_ns;
        let ask = !self.active && now < due && self.armed != due;
        if ask {
            self.armed = due;
        }
        ask.then_some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_after_the_wait_and_asked_for_once() {
        let mut high = High::new(100);
        assert!(high.is_idle(100) && !high.is_idle(99));
        high.launch();
        assert_eq!((high.is_idle(500), high.wake(500)), (false, None));
        high.idle(600);
        assert_eq!((high.wake(600), high.wake(650)), (Some(700), None));
        assert!(!high.is_idle(699) && high.is_idle(700));
    }
}
