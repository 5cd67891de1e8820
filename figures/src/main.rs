//! The `figures` command: draw, list, check, report.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use figures::registry::ENTRIES;
use figures::{Check, check, draw, report};

/// Draw figures and tables from the records of a run.
#[derive(Parser)]
#[command(name = "figures")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Draw into the run folder.
    Draw(Selection),
    /// List what can be drawn.
    List,
    /// Draw again and compare with the files in the run folder; exit code 1 at the first difference.
    Check(Selection),
    /// Write report.html into the run folder.
    Report {
        /// Run folder, e.g. results/h200-sim.
        #[arg(long, value_name = "DIR")]
        run: PathBuf,
    },
}

#[derive(Args)]
struct Selection {
    /// Run folder, e.g. results/h200-sim.
    #[arg(long, value_name = "DIR")]
    run: PathBuf,
    /// Also draw from an incomplete run, with an x for each missing cell.
    #[arg(long)]
    partial: bool,
    /// Figures and tables to draw [default: all whose experiment has a table].
    #[arg(value_name = "ID")]
    ids: Vec<String>,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Draw(s) => {
            for path in draw(&s.run, &s.ids, s.partial)? {
                println!("{}", path.display());
            }
        }
        Command::List => {
            for e in ENTRIES {
                let aliases = if e.aliases.is_empty() {
                    String::new()
                } else {
                    format!(" (also {})", e.aliases.join(", "))
                };
                println!("{}{aliases}: {}", e.id, e.title);
                println!("    experiment: {}", e.sources().join(", "));
                println!("    upstream: {}", e.upstream);
                if !e.paper_number.is_empty() {
                    println!("    paper_number: {}", e.paper_number);
                }
                if !e.note.is_empty() {
                    println!("    {}", e.note);
                }
            }
        }
        Command::Check(s) => match check(&s.run, &s.ids, s.partial)? {
            Check::Same { files } => {
                println!("{files} files are the same when drawn again");
                // Not a failure: it also shows what lies beside the folder, which may have changed since.
                if report::is_current(&s.run)? == Some(false) {
                    println!("{} is not of these files; renew it with `cargo xtask report`", report::NAME);
                }
            }
            Check::Differs { path, reason } => {
                eprintln!("{}: {reason}", s.run.join(path).display());
                return Ok(ExitCode::FAILURE);
            }
        },
        Command::Report { run } => println!("{}", report::renew(&run)?.display()),
    }
    Ok(ExitCode::SUCCESS)
}
