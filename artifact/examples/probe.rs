//! Scratch: quick slowdowns per pair and system on the A100, beside the published ones.
use sim::*;
use std::collections::BTreeMap;
use std::path::Path;
fn pct(mut v: Vec<u64>, q: f64) -> f64 {
    v.sort();
    if v.is_empty() {
        return f64::NAN;
    }
    let x = q * (v.len() - 1) as f64;
    let i = x as usize;
    let f = x - i as f64;
    v[i] as f64 * (1.0 - f) + v[(i + 1).min(v.len() - 1)] as f64 * f
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mname = &args[1];
    let systems: Vec<&str> = args[2].split(',').collect();
    let infs: Vec<&str> = args[3].split(',').collect();
    let trs: Vec<&str> = args[4].split(',').collect();
    let span_s: f64 = args[5].parse().unwrap();
    let root = Path::new("/work/w/fid");
    let machine = Machine::load(&root.join(format!("machines/{mname}.toml"))).unwrap();
    let rec = Machine::load(&root.join("machines/h200.toml")).unwrap();
    let prog = |id: &str| {
        let p = workloads::profile::load_set(
            &root.join("workloads"),
            "h200",
            if std::env::var("ART").is_ok() {
                workloads::profile::ProfileSet::Artifact
            } else {
                workloads::profile::ProfileSet::Stock
            },
            id,
        )
        .unwrap();
        let mut p = if *mname == "h200" {
            p.program
        } else {
            workloads::extrapolate_job(&p, &rec, &machine).unwrap()
        };
        if id.starts_with("llama") {
            for s in &mut p.segments {
                if s.repeat > 10 {
                    let per = s.launches.iter().map(|l| l.duration_ns[3] as u64).sum::<u64>();
                    let _ = per;
                    let whole = p.unprofiled_mean_ns;
                    let r = s.repeat as u64;
                    s.repeat = 10;
                    p.unprofiled_mean_ns = whole * 11 / (r + 1);
                    p.unprofiled_median_ns = p.unprofiled_median_ns * 11 / (r + 1);
                }
            }
        }
        p
    };
    let mut published: BTreeMap<(String, String, String), (f64, f64, f64, f64)> = BTreeMap::new();
    for line in
        std::fs::read_to_string(root.join("figures/reference/reference_a100.csv")).unwrap().lines().skip(1)
    {
        let f: Vec<&str> = line.split(',').collect();
        let g = |i: usize| f[i].parse::<f64>().unwrap_or(f64::NAN);
        let s = if f[3] == "tgs" { "tgs-artifact" } else { f[3] };
        published.insert(
            (f[0].into(), f[1].split('-').next().unwrap().into(), s.into()),
            (g(5) / g(9), g(6) / g(10), g(12), g(11)),
        );
    }
    for i in &infs {
        let ip = prog(i);
        let none = System::parse("no-sharing").unwrap();
        let solo = simulate(&Scenario {
            machine: &machine,
            system: &none,
            high: Some((&ip, Traffic::ClosedLoop { requests: 300 })),
            best_effort: vec![],
            span_ns: 1_000_000_000_000,
            seed: 1,
        })
        .unwrap();
        let lat: Vec<u64> = solo.requests.iter().map(|r| r.end_ns - r.start_ns).collect();
        let (mean, base) = (lat.iter().sum::<u64>() as f64 / lat.len() as f64, pct(lat, 0.99));
        for s in &systems {
            let sys = System::parse(s).unwrap();
            let (mut e, mut n) = (vec![], 0.0);
            for t in &trs {
                let tp = prog(t);
                let span = (span_s * 1e9) as u64;
                let alone = simulate(&Scenario {
                    machine: &machine,
                    system: &none,
                    high: None,
                    best_effort: vec![&tp],
                    span_ns: 30_000_000_000,
                    seed: 1,
                })
                .unwrap()
                .best_effort[0]
                    .rate_hz()
                    .unwrap();
                let mut at = 0.0;
                let mut x: u64 = 12345;
                let mut arr = vec![];
                while at < span as f64 {
                    x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let u = ((x >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
                    at += -u.ln() * mean / 0.5;
                    arr.push(at as u64);
                }
                let began = std::time::Instant::now();
                let out = simulate(&Scenario {
                    machine: &machine,
                    system: &sys,
                    high: Some((&ip, Traffic::Paced(&arr))),
                    best_effort: vec![&tp],
                    span_ns: span,
                    seed: 1,
                })
                .unwrap();
                let wall = began.elapsed().as_secs_f64();
                let lat: Vec<u64> = out.requests.iter().map(|r| r.end_ns - r.start_ns).collect();
                let m = lat.iter().sum::<u64>() as f64 / lat.len() as f64 / mean;
                let p50 = pct(lat.clone(), 0.5) / mean;
                let p = pct(lat.clone(), 0.99) / base;
                let be = out.best_effort[0].rate_hz().unwrap() / alone;
                let key = (
                    i.trim_end_matches("-infer").to_string(),
                    t.split('-').next().unwrap().to_string(),
                    s.to_string(),
                );
                let pb = published.get(&key).copied().unwrap_or((f64::NAN, f64::NAN, f64::NAN, f64::NAN));
                println!(
                    "{i:17} {t:20} {s:19} n{:5} | p99 {p:6.2} pub {:6.2} x{:5.2} | mean {m:6.2} pub {:6.2} x{:5.2} p50 {p50:5.2} | be {be:.2} pub {:.2} | {:.0}s/s",
                    lat.len(),
                    pb.0,
                    p / pb.0,
                    pb.1,
                    m / pb.1,
                    pb.2,
                    span_s / wall
                );
                e.push((p / pb.0).ln().abs());
                n += 1.0;
            }
            e.sort_by(|a, b| a.total_cmp(b));
            let _ = n;
            println!("   -> {i} {s} median |ln| {:.3}", e[e.len() / 2]);
        }
    }
}
