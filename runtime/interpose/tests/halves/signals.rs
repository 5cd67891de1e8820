//! A program's signals while its registration waits for the daemon.

use protocol::message::{Channel, Reply};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::time::Duration;

extern "C" fn nothing(_: libc::c_int) {}

/// poll(2) is not started again after a handler, whatever its flags: that is no time-out.
#[test]
fn a_signal_does_not_end_the_waiting_for_an_answer() {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let (client, daemon) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).expect("sockets");
    let (client, daemon) = (Channel::new(client), Channel::new(daemon));
    let handler = nothing as extern "C" fn(libc::c_int);
    // SAFETY: a handler that does nothing, for a signal that nothing else here uses.
    unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
    let (thread, started) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            // SAFETY: no conditions.
            thread.send(unsafe { libc::pthread_self() }).expect("somebody listens");
            client.receive::<Reply>(Duration::from_secs(20)).map(|(reply, _)| reply)
        });
        let thread = started.recv().expect("it begins");
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(5));
            // SAFETY: the thread is joined below.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
        }
        daemon.send(&Reply::Done, &[]).expect("it is sent");
        assert_eq!(waiting.join().expect("no panic").expect("an answer"), Reply::Done);
    });
}
