//! An HTTP server on 127.0.0.1 that breaks on order: it cuts, stalls, redirects, lies and sends pages. It answers each path
//! with its answers in turn (the last one again and again) and notes what it was asked.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest that a connection is held open without sending.
const LONGEST_STALL: Duration = Duration::from_secs(10);

/// What to do with one request.
#[derive(Clone)]
pub struct Answer {
    pub status: &'static str,
    pub headers: Vec<(String, String)>,
    pub body: Arc<Vec<u8>>,
    /// Whether ranges are served.
    pub ranges: bool,
    /// The length announced instead of the true one.
    pub announce: Option<u64>,
    /// No length at all: the end of the connection is the end of the body.
    pub no_length: bool,
    /// Close the connection after this many bytes of the body.
    pub cut_after: Option<usize>,
    /// Send nothing more after this many bytes of the body, until the client goes away.
    pub stall_after: Option<usize>,
    /// Done in mid-body, after half of it.
    pub in_the_middle: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Answer {
    pub fn status(status: &'static str) -> Answer {
        Answer {
            status,
            headers: Vec::new(),
            body: Arc::default(),
            ranges: true,
            announce: None,
            no_length: false,
            cut_after: None,
            stall_after: None,
            in_the_middle: None,
        }
    }

    pub fn ok(body: &[u8]) -> Answer {
        Answer { body: Arc::new(body.to_vec()), ..Answer::status("200 OK") }
    }

    pub fn header(mut self, name: &str, value: &str) -> Answer {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// What was asked: the request line's target and the headers, with names in lower case.
#[derive(Clone, Debug)]
pub struct Asked {
    pub target: String,
    pub headers: BTreeMap<String, String>,
}

impl Asked {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }
}

#[derive(Default)]
struct State {
    answers: Mutex<BTreeMap<String, Vec<Answer>>>,
    asked: Mutex<Vec<Asked>>,
    stop: AtomicBool,
}

/// Runs until it is dropped.
pub struct Server {
    address: SocketAddr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let of_thread = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            for connection in listener.incoming() {
                if of_thread.stop.load(Ordering::SeqCst) {
                    return;
                }
                let state = Arc::clone(&of_thread);
                std::thread::spawn(move || connection.map(|connection| serve(connection, &state)));
            }
        });
        Server { address, state, thread: Some(thread) }
    }

    /// The address of a path, e.g. `x.txt`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// Sets what this path is answered with, in turn; or this whole target, when the server plays a proxy.
    pub fn answer(&self, path: &str, answers: impl IntoIterator<Item = Answer>) {
        let path = if path.contains("://") { path.to_owned() } else { format!("/{path}") };
        self.state.answers.lock().unwrap().insert(path, answers.into_iter().collect());
    }

    /// What was asked since the last call.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.asked.lock().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        // Wakes it.
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(connection: TcpStream, state: &State) -> Option<()> {
    connection.set_read_timeout(Some(LONGEST_STALL)).ok()?;
    let mut reader = BufReader::new(connection.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let target = line.split_whitespace().nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let asked = Asked { target, headers };
    state.asked.lock().unwrap().push(asked.clone());
    let answer = {
        let mut all = state.answers.lock().unwrap();
        match all.get_mut(&asked.target) {
            Some(answers) if answers.len() > 1 => answers.remove(0),
            Some(answers) => answers.first().cloned().unwrap_or_else(|| Answer::status("404 Not Found")),
            None => Answer::status("404 Not Found"),
        }
    };
    send(connection, &asked, &answer, state)
}

fn send(mut to: TcpStream, asked: &Asked, answer: &Answer, state: &State) -> Option<()> {
    let from = offset(asked, answer);
    let body = &answer.body[from.min(answer.body.len())..];
    let status = match from {
        0 => answer.status,
        _ if from >= answer.body.len() => "416 Range Not Satisfiable",
        _ => "206 Partial Content",
    };
    let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    if !answer.no_length {
        head += &format!("Content-Length: {}\r\n", answer.announce.unwrap_or(body.len() as u64));
    }
    let names_range = answer.headers.iter().any(|(name, _)| name == "Content-Range");
    if status.starts_with("206") && !names_range {
        let total = answer.body.len();
        head += &format!("Content-Range: bytes {from}-{}/{total}\r\n", total - 1);
    }
    for (name, value) in &answer.headers {
        head += &format!("{name}: {value}\r\n");
    }
    to.write_all(format!("{head}\r\n").as_bytes()).ok()?;
    let mut sent = 0;
    let mut in_the_middle = answer.in_the_middle.clone();
    for block in body.chunks(4096) {
        let end = sent + block.len();
        let stop = [answer.cut_after, answer.stall_after].into_iter().flatten().min().unwrap_or(usize::MAX);
        to.write_all(&block[..block.len().min(stop.saturating_sub(sent))]).ok()?;
        sent = end;
        if answer.cut_after.is_some_and(|at| sent >= at) {
            return None;
        }
        if answer.stall_after.is_some_and(|at| sent >= at) {
            stall(&mut to, state);
            return None;
        }
        if sent >= body.len() / 2
            && let Some(act) = in_the_middle.take()
        {
            act();
        }
    }
    to.flush().ok()
}

/// Where the body begins: as asked, if this answer serves ranges and the file is still the same.
fn offset(asked: &Asked, answer: &Answer) -> usize {
    let same = answer.headers.iter().any(|(name, value)| {
        (name == "ETag" || name == "Last-Modified") && value == asked.header("if-range")
    });
    let range = asked.header("range").strip_prefix("bytes=").and_then(|r| r.strip_suffix('-'));
    let serves = answer.ranges && answer.status == "200 OK" && (same || asked.header("if-range").is_empty());
    range.filter(|_| serves).map_or(0, |from| from.parse().unwrap())
}

/// Silent until the client goes away.
fn stall(to: &mut TcpStream, state: &State) {
    let began = Instant::now();
    let _ = to.set_read_timeout(Some(Duration::from_millis(20)));
    while began.elapsed() < LONGEST_STALL && !state.stop.load(Ordering::SeqCst) {
        if matches!(to.read(&mut [0; 64]), Ok(0)) {
            return;
        }
    }
}
