//! A machine whose GPU, Python, programs and runtime are stand-ins. Its GPU is called "Stub GPU", so that nothing made with
//! it can pass for a measurement.

use crate::repository::{Answer, Repository};
use protocol::Priority;
use protocol::process::Process;
use protocol::report::{Ended, Mode, Report};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

pub const EXPERIMENT: &str = "artifact/experiments/one.toml";

/// A repository with the binary and what it looks for beside itself and on PATH.
pub struct StubGpu {
    pub repository: Repository,
    python: PathBuf,
}

impl StubGpu {
    pub fn new() -> StubGpu {
        let repository = Repository::new();
        let real = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for id in ["server", "trainer"] {
            fs::remove_dir_all(repository.path(&format!("workloads/{id}"))).unwrap();
        }
        for (from, to) in [("server", "bert-infer"), ("trainer", "resnet50-train")] {
            repository.replace(EXPERIMENT, &format!("\"{from}\""), &format!("\"{to}\""));
            let definition = fs::read_to_string(real.join(format!("workloads/{to}/workload.toml"))).unwrap();
            repository.write(&format!("workloads/{to}/workload.toml"), &definition);
            repository.write(&format!("workloads/{to}/program.py"), include_str!("program.py"));
        }
        symlink(real.join("workloads/profiles"), repository.path("workloads/profiles")).unwrap();
        repository.replace(EXPERIMENT, "[0.3, 0.5]", "[0.5]");
        repository.replace(
            EXPERIMENT,
            r#""time-slicing", "mps", "mps-priority", "tally", "gate""#,
            r#""time-slicing", "tally", "gate""#,
        );
        let python = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|folder| folder.join("python3"))
            .find(|path| path.is_file())
            .expect("these tests need a python3 on PATH");
        let stub = StubGpu { repository, python };
        fs::create_dir(stub.repository.path("bin")).unwrap();
        fs::create_dir(stub.repository.path("tmp")).unwrap();
        // A link would do, but the binary looks for the tools beside the file that it really is.
        fs::copy(env!("CARGO_BIN_EXE_artifact"), stub.repository.path("bin/artifact")).unwrap();
        stub.script(
            "nvidia-smi",
            "#!/bin/sh\nif [ -e lost ] && [ -e pids ]; then echo 'GPU is lost'; exit 15; fi\necho 'Stub GPU, GPU-0000, 1.2, 81920 MiB, 100 MHz, 200 MHz, 300.00 W'\n",
        );
        stub.use_python(&stub.python, "");
        stub.script("tally", include_str!("tally.sh"));
        stub.script("tallyd", "");
        stub.script("libtally_interpose.so", "");
        stub.report(Priority::High, |report| report.activations = 3);
        stub.report(Priority::BestEffort, |report| (report.admitted, report.held) = (40, 30));
        stub
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.repository.path("bin").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Lets programs run with this interpreter and these further flags; versions are made up.
    pub fn use_python(&self, python: &Path, flags: &str) {
        let python = python.display();
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = -c ]; then printf 'python 3\\ntorch 0\\ntransformers 0\\n'; exit; fi\n\
             exec '{python}' \"$@\" {flags}\n"
        );
        self.script("python3", &text);
    }

    /// What `tally` leaves of a process of this priority.
    pub fn report(&self, priority: Priority, change: impl Fn(&mut Report)) {
        let mode = if priority == Priority::High { Mode::Observed } else { Mode::Scheduled };
        let mut report = Report::new(Process { pid: 1, start: 1 }, priority, mode, Ended::Exit);
        report.substrate = "contexts".to_owned();
        change(&mut report);
        let name = format!("bin/{priority}.json");
        self.repository.write(&name, &serde_json::to_string(&report).unwrap());
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let paths = std::env::var_os("PATH").unwrap();
        let paths = [self.repository.path("bin")].into_iter().chain(std::env::split_paths(&paths));
        let mut command = Command::new(self.repository.path("bin/artifact"));
        command.current_dir(self.repository.path("")).args(["reproduce", "--backend", "gpu"]).args(arguments);
        command.env("PATH", std::env::join_paths(paths).unwrap()).env("TMPDIR", self.repository.path("tmp"));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Answer {
        Answer::of(self.command(arguments).output().unwrap())
    }

    /// How `tally` was called since the last look.
    pub fn calls(&self) -> Vec<String> {
        let path = self.repository.path("bin/calls");
        let calls = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        calls.lines().map(str::to_owned).collect()
    }

    /// The rows of a table, by column.
    pub fn rows(&self, table: &str) -> Vec<std::collections::HashMap<String, String>> {
        let mut reader = csv::Reader::from_path(self.repository.path(table)).unwrap();
        reader.deserialize().collect::<Result<_, _>>().unwrap()
    }

    /// Fails unless every program that was started has ended and no private folder is left.
    pub fn expect_nothing_left(&self) {
        let pids = fs::read_to_string(self.repository.path("pids")).unwrap();
        assert!(!pids.is_empty());
        for pid in pids.lines() {
            assert!(
                !Process::find(pid.parse().unwrap()).is_ok_and(Process::is_alive),
                "process {pid} is left"
            );
        }
        assert_eq!(fs::read_dir(self.repository.path("tmp")).unwrap().count(), 0, "a private folder is left");
    }
}
