//! `report.html` in a real browser, on a phone and on a desk, in light and in dark.
//!
//! The browser is Chromium without a window, driven by its command line. Where there is none the tests say so and pass;
//! `.ci/report` installs one.

mod common;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// Beyond any page of ours; a browser that hangs fails the test.
const PATIENCE: Duration = Duration::from_secs(120);

/// The first browser on PATH; else says, in a line that cargo shows of a test that passes too, that nothing was tested.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = found.into_iter().find(|path| path.is_file());
    if found.is_none() {
        let names = NAMES.join(", ");
        let _ =
            writeln!(std::io::stderr(), "SKIPPED: report.html was not opened: none of {names} is on PATH");
    }
    found
}

/// How the page is looked at.
#[derive(Clone, Copy, Debug)]
struct View {
    width: u32,
    dark: bool,
}

/// Opens a page; its document and the messages of its console.
fn open(browser: &Path, page: &Path, view: View) -> (String, Vec<String>) {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let mut arguments: Vec<OsString> = vec![
        "--headless=new".into(),
        // It needs rights that a container does not give; the page is our own.
        "--no-sandbox".into(),
        "--disable-gpu".into(),
        "--disable-dev-shm-usage".into(),
        "--no-first-run".into(),
        "--host-resolver-rules=MAP * ~NOTFOUND".into(),
        "--enable-logging=stderr".into(),
        "--virtual-time-budget=5000".into(),
        "--window-size=1400,1000".into(),
        format!("--blink-settings=preferredColorScheme={}", u8::from(!view.dark)).into(),
    ];
    let mut profile = OsString::from("--user-data-dir=");
    profile.push(at("profile"));
    let mut address = OsString::from("file://");
    address.push(page);
    arguments.extend([profile, "--dump-dom".into(), address]);
    // To files: a pipe that nobody empties stops it.
    let (out, err) = (File::create(at("out")).unwrap(), File::create(at("err")).unwrap());
    let mut child = Command::new(browser)
        .args(&arguments)
        .env("HOME", scratch.path())
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("{} did not end", browser.display());
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let text = |name: &str| String::from_utf8_lossy(&fs::read(at(name)).unwrap()).into_owned();
    let err = text("err");
    assert!(status.success(), "{}: {err}", browser.display());
    (text("out"), err.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect())
}

/// Opens a copy of the page that measures itself, in a frame: a window has a least width, which is wider than a phone. The
/// answer is what `measure.js` says, with the messages of the console among the problems.
fn measure(browser: &Path, page: &str, view: View) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frame.html");
    // The policy of the page forbids the script that measures, too.
    let (before, rest) = page.split_once("<meta http-equiv=\"Content-Security-Policy\"").unwrap();
    let rest = rest.split_once('>').unwrap().1;
    let script = format!("<script>{}</script></body>", include_str!("measure.js"));
    let (start, end) = rest.rsplit_once("</body>").unwrap();
    fs::write(folder.path().join("page.html"), format!("{before}{start}{script}{end}")).unwrap();
    let frame = format!(
        "<!DOCTYPE html><meta name=\"color-scheme\" content=\"light dark\"><pre></pre><script>\
         addEventListener('message', e => document.querySelector('pre').textContent = e.data)</script>\
         <iframe src=\"page.html\" width=\"{}\" height=\"800\" style=\"border:0\"></iframe>",
        view.width
    );
    fs::write(&path, frame).unwrap();
    let (document, console) = open(browser, &path, view);
    let answer = document.split_once("<pre>").unwrap().1.split("</pre>").next().unwrap();
    let answer = answer.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let mut answer: Value = serde_json::from_str(&answer).expect("the page was not measured");
    answer["problems"].as_array_mut().unwrap().extend(console.into_iter().map(Value::from));
    answer
}

fn problems(answer: &Value) -> Vec<&str> {
    answer["problems"].as_array().unwrap().iter().map(|problem| problem.as_str().unwrap()).collect()
}

const VIEWS: [View; 4] = [
    View { width: 360, dark: false },
    View { width: 1280, dark: false },
    View { width: 360, dark: true },
    View { width: 1280, dark: true },
];

fn examine(browser: &Path, report: &Path) {
    let (document, console) = open(browser, &report.canonicalize().unwrap(), VIEWS[0]);
    assert!(document.contains("</footer>") && console.is_empty(), "{console:?}");
    let page = fs::read_to_string(report).unwrap();
    for view in VIEWS {
        let answer = measure(browser, &page, view);
        assert_eq!(problems(&answer), [""; 0], "{view:?}");
        assert_eq!(
            (answer["width"].as_u64(), answer["dark"].as_bool()),
            (Some(view.width.into()), Some(view.dark))
        );
        let count = |what: &str| answer[what].as_u64().unwrap();
        assert!(count("pictures") > 0 && count("links") > 9 && count("texts") > 200, "{answer}");
        assert!(answer["title"].as_str().unwrap().starts_with("GPU sharing by priority"), "{answer}");
    }
}

#[test]
fn it_reads_well_on_every_screen() {
    let Some(browser) = browser() else { return };
    let run = common::hostile_run();
    examine(&browser, &run.path().join("report.html"));
}

#[test]
fn a_bitmap_is_shown_where_the_drawing_cannot_be() {
    let Some(browser) = browser() else { return };
    let run = common::hostile_run();
    let svg = run.path().join("figures/fig5.svg");
    fs::write(&svg, fs::read_to_string(&svg).unwrap().replace("</svg>", "<script>1</script></svg>")).unwrap();
    let report = figures::report::renew(run.path()).unwrap();
    assert!(fs::read_to_string(&report).unwrap().contains("data:image/png"));
    examine(&browser, &report);
}

/// The report of the quick run; `.ci/report` makes it first.
#[test]
#[ignore = "needs the quick run: a step of .ci/run"]
fn the_report_of_the_quick_run_reads_well() {
    let Some(browser) = browser() else { return };
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/h200-sim-quick");
    examine(&browser, &run.join("report.html"));
}

/// What is measured would also be found.
#[test]
fn a_bad_page_is_found_out() {
    let Some(browser) = browser() else { return };
    let run = common::hostile_run();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    let bad = [
        ("<div style=\"width:900px\">wide</div>", "the page is 9"),
        ("<img src=\"data:image/png;base64,AAAA\" style=\"width:60px;height:60px\">", "an image is broken"),
        ("<svg width=\"0\" height=\"0\"></svg>", "a picture is 0 by 0"),
        ("<a href=\"#nowhere\">x</a>", "#nowhere leads nowhere"),
        ("<p style=\"color:#eee\">pale</p>", "\"pale\" has a contrast of 1."),
        ("<p style=\"visibility:hidden\">hidden</p>", "\"hidden\" cannot be seen"),
        ("<p style=\"font-size:5px\">tiny</p>", "\"tiny\" is too small"),
        ("<img src=\"http://x.invalid/x.png\" style=\"width:60px;height:60px\">", "loads http://x.invalid/"),
        ("<script>throw 1</script>", "Uncaught 1"),
    ];
    let all: String = bad.iter().map(|(element, _)| *element).collect();
    let answer = measure(&browser, &page.replace("</main>", &format!("{all}</main>")), VIEWS[0]);
    for (element, expected) in bad {
        assert!(problems(&answer).iter().any(|found| found.contains(expected)), "{element}: {answer}");
    }
}
