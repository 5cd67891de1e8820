//! What a launch costs through the wrapper, over a driver that only counts: `cuLaunchKernel` called directly and through
//! the wrapper, in nanoseconds.
//!
//! `RUSTFLAGS="--cfg interpose_bench" cargo bench -p interpose`.

#[cfg(interpose_bench)]
#[path = "../tests/it/build.rs"]
#[allow(dead_code, reason = "the bench needs no programs")]
mod build;

#[cfg(interpose_bench)]
mod benches {
    use criterion::Criterion;
    use std::hint::black_box;
    use std::ptr::null_mut;
    use tally_interpose::types::*;
    use tally_interpose::{Hook, driver, wrappers};

    type Launch = unsafe extern "C" fn(
        CUfunction,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        CUstream,
        *mut *mut c_void,
        *mut *mut c_void,
    ) -> CUresult;

    fn call(launch: Launch) -> CUresult {
        // SAFETY: the driver of this bench reads nothing.
        unsafe { launch(black_box(CUfunction::NULL), 64, 1, 1, 256, 1, 1, 0, LEGACY, null_mut(), null_mut()) }
    }

    pub fn run() {
        let folder = crate::build::Folder::new();
        // SAFETY: before anything else is started.
        unsafe {
            std::env::set_var("TALLY_SOCKET", "/nonexistent/socket");
            std::env::set_var("TALLY_DRIVER", folder.path().join("libcuda.so.1"));
        }
        let direct = driver::real(Hook::cuLaunchKernel).expect("the driver has it");
        // SAFETY: the driver's function of this name.
        let direct: Launch = unsafe { std::mem::transmute(direct) };
        let mut criterion = Criterion::default().configure_from_args();
        let mut group = criterion.benchmark_group("launch");
        group.bench_function("direct", |bencher| bencher.iter(|| call(black_box(direct))));
        group.bench_function("wrapper", |bencher| bencher.iter(|| call(black_box(wrappers::cuLaunchKernel))));
        group.finish();
        criterion.final_summary();
    }
}

fn main() {
    #[cfg(interpose_bench)]
    benches::run();
    #[cfg(not(interpose_bench))]
    eprintln!("the bench is behind a switch: RUSTFLAGS=\"--cfg interpose_bench\" cargo bench -p interpose");
}
