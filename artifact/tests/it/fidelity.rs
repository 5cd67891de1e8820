//! `artifact fidelity` without its simulations.

use std::path::Path;
use std::process::Command;

#[test]
fn the_plan_names_every_part_and_its_cost() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_artifact"));
        let output = command.current_dir(root).arg("fidelity").args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let (good, out, err) = run(&["--quick", "--list"]);
    assert!(good, "{err}");
    for part in
        ["published pairs, stock profiles: 10 cells", "TGS, stock", "measured pairs: ", "sensitivity: "]
    {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (good, _, err) = run(&["--list", "--measured", "no/such"]);
    assert!(!good && err.contains("no/such/run.toml"), "{err}");
}
