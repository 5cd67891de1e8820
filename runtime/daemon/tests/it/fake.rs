//! Programs that stand in for those of the driver, in a folder that goes first on PATH.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A folder of fake programs and their state.
pub struct Fake {
    pub folder: tempfile::TempDir,
}

impl Fake {
    pub fn new() -> Fake {
        Fake { folder: tempfile::tempdir().unwrap() }
    }

    /// A path among the state.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The content of a file of the state; empty if it is not there.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.file("bin").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// PATH with the fakes first.
    pub fn path(&self) -> OsString {
        let mut path = self.file("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        path
    }

    /// An nvidia-smi that lists these lines of `index, name, uuid, driver, compute mode, memory, MIG`.
    pub fn nvidia_smi(&self, lines: &str) {
        fs::create_dir_all(self.file("bin")).unwrap();
        fs::write(self.file("devices"), lines).unwrap();
        let devices = self.file("devices");
        self.program("nvidia-smi", &format!("#!/bin/sh\ncat '{}'\n", devices.display()));
    }

    /// An nvidia-cuda-mps-control. Files of the state steer it: `unready` with the number of questions that it does not
    /// answer, `never`, `stay` (it does not end with its folder), `clients` with process numbers, `pid` with the number that it claims. `commands` is what it was
    /// told.
    pub fn mps(&self) {
        let state = self.folder.path().display();
        let text = format!(
            r#"#!/bin/sh
state='{state}'
pipe=$CUDA_MPS_PIPE_DIRECTORY
case $1 in
-d)
    echo "$CUDA_VISIBLE_DEVICES" >"$state/visible"
    i=0; while [ $i -lt 30 ]; do i=$((i + 1)); echo "[Control] line $i of user 1234" >>"$CUDA_MPS_LOG_DIRECTORY/control.log"; done
    "$0" serve </dev/null >/dev/null 2>&1 &
    if [ -e "$state/pid" ]; then cat "$state/pid"; else echo $!; fi >"$pipe/nvidia-cuda-mps-control.pid"
    echo $! >>"$state/started"
    exit ;;
serve)
    while [ ! -e "$pipe/quit" ] && {{ [ -d "$pipe" ] || [ -e "$state/stay" ]; }}; do sleep 0.02; done
    exit ;;
esac
left=$(cat "$state/unready" 2>/dev/null || echo 0)
if [ "$left" -gt 0 ] || [ -e "$state/never" ] || [ ! -d "$pipe" ]; then
    echo $((left - 1)) >"$state/unready"
    echo 'Cannot find MPS control daemon process'
    exit 1
fi
while read -r verb one two; do
    alive=
    case $verb in
    get_server_list) echo 4242 ;;
    get_client_list) cat "$state/clients" 2>/dev/null ;;
    terminate_client) alive=' dead'; [ -d "/proc/$two" ] && alive=' alive' ;;
    quit) : >"$pipe/quit" ;;
    esac
    echo "$verb $one $two$alive" >>"$state/commands"
done
"#
        );
        self.program("nvidia-cuda-mps-control", &text);
    }

    /// The control daemons that were started and still run.
    pub fn mps_daemons(&self) -> Vec<u32> {
        let started = self.read("started");
        let pids = started.lines().filter_map(|line| line.parse().ok());
        pids.filter(|pid| runs(*pid)).collect()
    }
}

/// Whether a process runs and is no zombie.
pub fn runs(pid: u32) -> bool {
    protocol::process::Process::find(pid).is_ok_and(protocol::process::Process::is_alive)
}

/// What is in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
