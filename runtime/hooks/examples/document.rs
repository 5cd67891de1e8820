//! Prints docs/HOOKS.md: `cargo run --package hooks --example document > docs/HOOKS.md`.

fn main() {
    print!("{}", hooks::document());
}
