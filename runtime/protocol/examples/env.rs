//! Prints docs/ENV.md: `cargo run --package protocol --example env > docs/ENV.md`.

fn main() {
    print!("{}", protocol::settings::markdown());
}
