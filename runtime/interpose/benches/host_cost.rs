//! What a launch costs its host over the stub driver, ns: `cuLaunchKernel` called directly, through a library that is switched
//! off, as high priority, and as best effort while the device is idle; and a request of ten launches and a
//! `cuStreamSynchronize`, directly and as high priority.
//!
//! `RUSTFLAGS="--cfg interpose_bench" cargo bench -p interpose --bench host_cost`. Each is a process of its own, since a
//! process has one part to play; this one is the daemon and asks them for times.

fn main() {
    #[cfg(interpose_bench)]
    if std::env::args().nth(1).as_deref() == Some("part") {
        part::run();
    } else {
        daemon::run();
    }
    #[cfg(not(interpose_bench))]
    println!("nothing is measured without RUSTFLAGS=\"--cfg interpose_bench\"");
}

#[cfg(interpose_bench)]
mod daemon {
    use criterion::Criterion;
    use protocol::VERSION;
    use protocol::message::{Channel, Reply, Request};
    use protocol::segment::Segment;
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, socket_with,
    };
    use std::io::{BufRead, BufReader, Write};
    use std::os::fd::{AsFd, OwnedFd};
    use std::path::Path;
    use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
    use std::time::Duration;

    /// A process that measures when it is told to.
    struct Part {
        child: Child,
        ask: ChildStdin,
        answer: BufReader<ChildStdout>,
    }

    impl Part {
        fn start(socket: Option<&Path>, priority: &str, work: &str) -> Part {
            let mut command = Command::new(std::env::current_exe().expect("the path of this bench"));
            command.args(["part", work]).env("TALLY_DRIVER", stub::library_folder().join("libcuda.so.1"));
            match socket {
                Some(socket) => command.env("TALLY_SOCKET", socket).env("TALLY_PRIORITY", priority),
                None => command.env_remove("TALLY_SOCKET"),
            };
            let mut child =
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the bench starts");
            let ask = child.stdin.take().expect("a pipe");
            let answer = BufReader::new(child.stdout.take().expect("a pipe"));
            Part { child, ask, answer }
        }

        fn measure(&mut self, rounds: u64) -> Duration {
            writeln!(self.ask, "{rounds}").expect("it listens");
            let mut line = String::new();
            self.answer.read_line(&mut line).expect("it answers");
            Duration::from_nanos(line.trim().parse().expect("a number of ns"))
        }
    }

    impl Drop for Part {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// Gives every client the same welcome.
    fn welcome(socket: &OwnedFd, policy: &str) {
        let mut open = Vec::new();
        for slot in 0.. {
            let channel = Channel::new(accept(socket).expect("a client"));
            let (segment, file) = Segment::create().expect("memory");
            let (_, _): (Request, _) = channel.receive(Duration::from_secs(10)).expect("a hello");
            let (policy, substrate) = (policy.to_owned(), "contexts".to_owned());
            let reply = Reply::Welcome { version: VERSION, slot, policy, substrate, gpu: None };
            channel.send(&reply, &[file.as_fd()]).expect("it listens");
            open.push((channel, segment));
        }
    }

    fn listener(path: &Path) -> OwnedFd {
        let kind = SocketType::SEQPACKET;
        let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("a socket");
        bind(&socket, &SocketAddrUnix::new(path).expect("a short path")).expect("a free path");
        listen(&socket, 8).expect("it listens");
        socket
    }

    pub fn run() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let socket = |policy: &'static str| {
            let path = folder.path().join(policy);
            let listener = listener(&path);
            std::thread::spawn(move || welcome(&listener, policy));
            path
        };
        let (one, budget) = (socket("gate"), socket("gate:depth=64,budget_us=1000"));
        let mut criterion = Criterion::default().configure_from_args();
        for work in ["launch", "request"] {
            let mut group = criterion.benchmark_group(work);
            for (name, socket, priority) in [
                ("direct", None, "direct"),
                ("off", None, "off"),
                ("high", Some(&one), "high"),
                ("best-effort-depth-1", Some(&one), "best-effort"),
                ("best-effort-budget", Some(&budget), "best-effort"),
            ] {
                let how = if name == "direct" { format!("{work}-direct") } else { work.to_owned() };
                let mut part = Part::start(socket.map(std::path::PathBuf::as_path), priority, &how);
                group.bench_function(name, |bencher| bencher.iter_custom(|rounds| part.measure(rounds)));
            }
            group.finish();
        }
        criterion.final_summary();
    }
}

#[cfg(interpose_bench)]
mod part {
    use std::ffi::CStr;
    use std::hint::black_box;
    use std::ptr::{NonNull, null_mut};
    use std::time::Instant;
    use tally_interpose::types::*;
    use tally_interpose::{Hook, driver, lookup, wrappers};

    type Launch = unsafe extern "C" fn(
        CUfunction,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        CUstream,
        *mut *mut c_void,
        *mut *mut c_void,
    ) -> CUresult;
    type Synchronize = unsafe extern "C" fn(CUstream) -> CUresult;

    /// A function of the driver.
    ///
    /// # Safety
    /// `F` is a pointer to a function of its type.
    unsafe fn function<F: Copy>(name: &CStr) -> F {
        let found: NonNull<c_void> =
            lookup::dlsym(driver::handle().expect("the stub"), name).expect("the stub has it");
        // SAFETY: the caller's promise; function pointers have the size of others.
        unsafe { std::mem::transmute_copy(&found) }
    }

    pub fn run() {
        let work = std::env::args().nth(2).expect("what to measure");
        let direct = work.ends_with("-direct");
        let (mut context, mut module, mut kernel) = (CUcontext::NULL, CUmodule::NULL, CUfunction::NULL);
        // SAFETY: signatures of cuda.h.
        unsafe {
            let init: unsafe extern "C" fn(c_uint) -> CUresult = function(c"cuInit");
            let retain: unsafe extern "C" fn(*mut CUcontext, c_int) -> CUresult =
                function(c"cuDevicePrimaryCtxRetain");
            let set: unsafe extern "C" fn(CUcontext) -> CUresult = function(c"cuCtxSetCurrent");
            assert!(init(0).is_success() && retain(&raw mut context, 0).is_success());
            assert!(set(context).is_success());
            let image = c".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n";
            assert!(wrappers::cuModuleLoadData(&raw mut module, image.as_ptr().cast()).is_success());
            assert!(wrappers::cuModuleGetFunction(&raw mut kernel, module, c"k".as_ptr()).is_success());
        }
        // SAFETY: signatures of cuda.h.
        let (real, real_synchronize): (Launch, Synchronize) =
            unsafe { (function(c"cuLaunchKernel"), function(c"cuStreamSynchronize")) };
        assert!(driver::real(Hook::cuLaunchKernel).is_some());
        let launch = black_box(if direct { real } else { wrappers::cuLaunchKernel });
        let synchronize = black_box(if direct { real_synchronize } else { wrappers::cuStreamSynchronize });
        let once = || {
            // SAFETY: a kernel of the stub's.
            let result = unsafe { launch(kernel, 4, 1, 1, 32, 1, 1, 0, LEGACY, null_mut(), null_mut()) };
            assert!(result.is_success());
        };
        let wait = || {
            // SAFETY: the legacy default stream.
            assert!(unsafe { synchronize(LEGACY) }.is_success());
        };
        for line in std::io::stdin().lines() {
            let rounds: u64 = line.expect("a line").trim().parse().expect("a number");
            let begun = Instant::now();
            for _ in 0..rounds {
                if work.starts_with("request") {
                    (0..10).for_each(|_| once());
                    wait();
                } else {
                    once();
                }
            }
            let elapsed = begun.elapsed();
            wait();
            println!("{}", elapsed.as_nanos());
        }
    }
}
