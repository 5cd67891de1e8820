//! Binds the library's references to its own exports: its wrappers must not be replaced by those of another preloaded
//! library, which in turn may look ours up.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo:rerun-if-changed=build.rs");
}
