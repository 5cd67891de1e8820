//! A daemon with its folder, and programs that run under it.

use protocol::Priority;
use protocol::report::Report;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use stub::Call;
use tempfile::TempDir;

/// How long anything that must happen may take: the machine may be busy.
pub const LIMIT: Duration = Duration::from_secs(30);

/// A daemon that is killed when the test ends.
pub struct Session {
    folder: TempDir,
    daemon: Child,
}

/// A program that is killed when the test ends.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The library under test, which cargo builds beside this test.
pub fn interposer() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.with_file_name("libtally_interpose.so")
}

/// The daemon, built where cargo built this test; cargo does nothing if it is up to date.
fn daemon() -> PathBuf {
    static DAEMON: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let test = std::env::current_exe().expect("the path of this test");
        let profile = test.ancestors().nth(2).expect("a test lies in deps");
        let name = profile.file_name().expect("a profile has a name").to_string_lossy();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--quiet", "--package", "daemon", "--bin", "tallyd", "--target-dir"])
            .arg(profile.parent().expect("a profile lies in the target folder"))
            .args(["--profile", if name == "debug" { "dev" } else { &name }])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(status.expect("cargo starts").success(), "the daemon cannot be built");
        profile.join("tallyd")
    };
    DAEMON.get_or_init(build).clone()
}

pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < end, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Session {
    pub fn new(policy: &str) -> Session {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("reports")).expect("a folder");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).expect("it is ours");
        let daemon = Command::new(daemon())
            .args(["--gpu", "none", "--policy", policy, "--dir"])
            .arg(folder.path())
            .env("TALLY_PROFILES", folder.path().join("profiles"))
            .stderr(Stdio::null())
            .spawn()
            .expect("the daemon starts");
        let session = Session { folder, daemon };
        until("the daemon's socket", || session.socket().exists());
        session
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.path().join("default.sock")
    }

    /// A program of the stub's, under this daemon, sharing one device with the others; its calls go to `NAME.calls`.
    pub fn command(&self, priority: Priority, name: &str) -> Command {
        let mut command = stub::command(name);
        command
            .env("LD_PRELOAD", interposer())
            .env("TALLY_SOCKET", self.socket())
            .env("TALLY_PRIORITY", priority.name())
            .env("TALLY_REPORT", self.path().join("reports"))
            .env("STUB_DEVICE", self.path().join("device"))
            .env("STUB_LOG", self.path().join(format!("{name}.calls")));
        command
    }

    /// Starts it with its output to be read.
    pub fn spawn(&self, command: &mut Command) -> (Running, BufReader<ChildStdout>) {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        (Running(child), output)
    }

    /// The calls of a program, which may have been killed while it wrote one.
    pub fn calls(&self, name: &str) -> Vec<Call> {
        let text = std::fs::read_to_string(self.path().join(format!("{name}.calls"))).expect("a log");
        stub::parse_log(text.rfind('\n').map_or("", |end| &text[..=end])).expect("calls")
    }

    /// The reports so far, by program and process.
    pub fn reports(&self) -> Vec<Report> {
        let folder = std::fs::read_dir(self.path().join("reports")).expect("a folder");
        let paths = folder.map(|entry| entry.expect("an entry").path());
        let done = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let mut reports: Vec<_> = done.map(|path| Report::read(&path).expect("a report")).collect();
        reports.sort_by_key(|report| (report.program.clone(), report.process.pid));
        reports
    }

    /// The only report of this program.
    pub fn report(&self, program: &str) -> Report {
        let mut found: Vec<_> =
            self.reports().into_iter().filter(|report| report.program == program).collect();
        assert_eq!(found.len(), 1, "reports of {program}: {found:?}");
        found.remove(0)
    }

    pub fn kill_daemon(&mut self) {
        self.daemon.kill().expect("it runs");
        self.daemon.wait().expect("it was started here");
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Runs to its end, which must be a success.
pub fn succeeded(command: &mut Command) -> Output {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {text}", output.status);
    output
}

/// Reads lines until one that begins so.
pub fn read_until(lines: &mut impl BufRead, beginning: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(lines.read_line(&mut line).expect("output") > 0, "the program ended before `{beginning}`");
        if line.starts_with(beginning) {
            return line.trim_end().to_owned();
        }
    }
}
