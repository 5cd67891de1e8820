//! One file from one address: asks again after faults that pass, goes on where the last connection ended, and stops at
//! the first sign that this place doesn't have the file.

use crate::fault::Fault;
use crate::part::Part;
use crate::pin::Pin;
use crate::progress::Progress;
use crate::settings::Settings;
use crate::sniff::{self, LOOKED_AT, one_line};
use reqwest::StatusCode;
use reqwest::blocking::{Client, Response};
use reqwest::header::{self, HeaderMap, HeaderName};
use std::error::Error;
use std::io::{self, Read};
use std::time::Duration;

/// However much each connection brings, there is an end to them.
const MOST_CONNECTIONS: u32 = 200;
/// The longest wait that a server may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// Downloads into `part` until it holds the whole file of `pin`, and gives it its final name. On a fault that may pass,
/// what was received stays for the next run; on any other the partial file is emptied.
pub fn download(
    url: &str,
    pin: &Pin,
    part: &mut Part,
    settings: &Settings,
    progress: &mut Progress,
) -> Result<(), Fault> {
    let client = client(url, settings)?;
    let mut failures = 0;
    let mut most = 0;
    let mut started_over = false;
    for connection in 1.. {
        let resumed = part.came_from(url).is_some();
        let result = match attempt(&client, url, pin, part, settings, progress) {
            Ok(()) => part.finish(pin),
            Err(fault) => Err(fault),
        };
        let fault = match result {
            Ok(()) => return Ok(()),
            Err(fault) => fault,
        };
        // Two halves of two versions of the file: once more, in one piece.
        if resumed && !started_over && matches!(fault, Fault::Mismatch(_) | Fault::TooLong { .. }) {
            progress.say("the file has changed since its first part came: starting over");
            started_over = true;
            part.begin(url, "")?;
            continue;
        }
        if !fault.is_transient() {
            if !fault.is_fatal() {
                part.begin(url, "")?;
            }
            return Err(fault);
        }
        if part.len() > most {
            most = part.len();
            failures = 0;
        }
        failures += 1;
        if failures >= settings.attempts || connection >= MOST_CONNECTIONS {
            return Err(fault);
        }
        let asked_for = match &fault {
            Fault::Status { retry_after: Some(wait), .. } => (*wait).min(LONGEST_WAIT),
            _ => Duration::ZERO,
        };
        let pause = settings.pause_after(failures).max(asked_for);
        progress.say(&format!("{fault}; again in {} s", pause.as_secs_f64()));
        std::thread::sleep(pause);
    }
    unreachable!("the loop returns after MOST_CONNECTIONS")
}

fn client(url: &str, settings: &Settings) -> Result<Client, Fault> {
    // One that is already installed is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = || {
        let builder = Client::builder()
            .user_agent(concat!("artifact-fetch/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(settings.silence)
            // Of each step, not of the whole: the answer, then each read.
            .timeout(settings.silence);
        if settings.proxies { builder } else { builder.no_proxy() }
    };
    match builder().build() {
        Ok(client) => Ok(client),
        // Without root certificates there is no TLS, but plain HTTP needs none.
        Err(_) if url.starts_with("http://") => {
            builder().tls_certs_only([]).build().map_err(|error| Fault::Tls { why: reason(&error) })
        }
        Err(error) => Err(Fault::Tls { why: reason(&error) }),
    }
}

/// One request, from where the partial file ends.
fn attempt(
    client: &Client,
    url: &str,
    pin: &Pin,
    part: &mut Part,
    settings: &Settings,
    progress: &mut Progress,
) -> Result<(), Fault> {
    let validator = part.came_from(url);
    if validator.is_some() && part.len() == pin.size {
        return Ok(());
    }
    let offset = if validator.is_some() && part.len() < pin.size { part.len() } else { 0 };
    let mut request = client.get(url).header(header::ACCEPT_ENCODING, "identity");
    if offset > 0 {
        request = request.header(header::RANGE, format!("bytes={offset}-"));
        if let Some(validator) = validator.filter(|v| !v.is_empty()) {
            request = request.header(header::IF_RANGE, validator);
        }
    }
    let mut response = request.send().map_err(|error| no_answer(&error, pin, part, settings))?;
    let offset = judge_status(&response, offset, pin, url, part)?;
    let headers = response.headers().clone();
    let text = |name: HeaderName| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().trim();
    let encoding = text(header::CONTENT_ENCODING);
    if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") {
        return Err(Fault::Encoded { how: format!("Content-Encoding: {}", one_line(encoding)) });
    }
    // A page or a pointer is told as such even when its length gives it away, too.
    let (first, mut ended) = first_bytes(&mut response);
    if offset == 0
        && let Some(fault) = sniff::not_the_file(&first, text(header::CONTENT_TYPE))
    {
        return Err(fault);
    }
    if let Ok(length) = text(header::CONTENT_LENGTH).parse::<u64>()
        && offset.saturating_add(length) != pin.size
    {
        return Err(Fault::Announced { found: offset.saturating_add(length), expected: pin.size });
    }
    if offset == 0 {
        part.begin(url, &strong_validator(&headers))?;
    }
    progress.begin(offset);
    append(part, &first, pin)?;
    let mut block = vec![0; 1 << 16];
    while ended.is_none() {
        match response.read(&mut block) {
            Ok(0) => ended = Some(Ok(())),
            Ok(n) => {
                append(part, &block[..n], pin)?;
                progress.at(part.len());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => ended = Some(Err(error)),
        }
    }
    let (received, expected) = (part.len(), pin.size);
    match ended {
        // All is there: how the connection ended doesn't matter.
        _ if received == expected => Ok(()),
        Some(Err(error)) if is_timeout(&error) => {
            Err(Fault::Stalled { silence: settings.silence, received, expected })
        }
        _ => Err(Fault::Truncated { received, expected }),
    }
}

fn append(part: &mut Part, bytes: &[u8], pin: &Pin) -> Result<(), Fault> {
    if part.len() + bytes.len() as u64 > pin.size {
        return Err(Fault::TooLong { expected: pin.size });
    }
    part.append(bytes)
}

/// The offset that the body begins at: the one asked for, or 0.
fn judge_status(
    response: &Response,
    offset: u64,
    pin: &Pin,
    url: &str,
    part: &mut Part,
) -> Result<u64, Fault> {
    let headers = response.headers();
    let text = |name: HeaderName| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().trim();
    match response.status() {
        // Asked for the rest, got the whole: no ranges here, or the file has changed.
        StatusCode::OK => Ok(0),
        StatusCode::PARTIAL_CONTENT if offset > 0 => {
            let range = text(header::CONTENT_RANGE);
            let rest = format!("bytes {offset}-{}/", pin.size - 1);
            match range.strip_prefix(rest.as_str()) {
                Some(total) if total == "*" || total == pin.size.to_string() => Ok(offset),
                _ => {
                    part.begin(url, "")?;
                    Err(Fault::Range {
                        why: format!("asked for {rest}{}, got \"{}\"", pin.size, one_line(range)),
                    })
                }
            }
        }
        status => {
            if status == StatusCode::RANGE_NOT_SATISFIABLE {
                part.begin(url, "")?;
            }
            let retry_after = text(header::RETRY_AFTER).parse().ok().map(Duration::from_secs);
            if status.is_redirection() {
                return Err(Fault::Redirect { why: format!("{status} to nowhere") });
            }
            Err(Fault::Status { status: status.to_string(), code: status.as_u16(), retry_after })
        }
    }
}

/// The first bytes of the body, and how it ended if it did.
fn first_bytes(response: &mut Response) -> (Vec<u8>, Option<io::Result<()>>) {
    let mut first = vec![0; LOOKED_AT];
    let mut len = 0;
    let mut ended = None;
    while len < first.len() && ended.is_none() {
        match response.read(&mut first[len..]) {
            Ok(0) => ended = Some(Ok(())),
            Ok(n) => len += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => ended = Some(Err(error)),
        }
    }
    first.truncate(len);
    (first, ended)
}

/// What an If-Range header takes: a strong ETag, else the time of the last change, else nothing.
fn strong_validator(headers: &HeaderMap) -> String {
    let text =
        |name: HeaderName| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    let tag = text(header::ETAG);
    if tag.starts_with('"') { tag } else { text(header::LAST_MODIFIED) }
}

fn no_answer(error: &reqwest::Error, pin: &Pin, part: &Part, settings: &Settings) -> Fault {
    if error.is_redirect() {
        return Fault::Redirect { why: reason(error) };
    }
    if error.is_timeout() && !error.is_connect() {
        return Fault::Stalled { silence: settings.silence, received: part.len(), expected: pin.size };
    }
    let set: Vec<&str> = PROXY_VARIABLES
        .into_iter()
        .filter(|name| std::env::var_os(name).is_some_and(|v| !v.is_empty()))
        .collect();
    let proxy = (settings.proxies && !set.is_empty()).then(|| set.join(", "));
    Fault::Connect { why: reason(error), proxy }
}

fn is_timeout(error: &io::Error) -> bool {
    let mut source: Option<&(dyn Error + 'static)> = error.get_ref().map(|e| e as _);
    while let Some(error) = source {
        if error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_timeout) {
            return true;
        }
        source = error.source();
    }
    error.kind() == io::ErrorKind::TimedOut
}

/// The innermost cause, which is the one that says something.
fn reason(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = error.to_string();
        source = error.source();
    }
    one_line(&text)
}
